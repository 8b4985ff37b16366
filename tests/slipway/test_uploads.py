"""`slipway upload`: what is on its way to a model."""

import pytest

from models_registry.models import Upload
from tests import cast
from tests.models_registry import builders as b
from tests.models_registry.conftest import actor, ada, api, library, model
from tests.models_registry.test_uploads import Uploader
from tests.slipway.conftest import Terminal

JSON = ("--output", "json")

__all__ = ["actor", "ada", "api", "library", "model"]


@pytest.fixture
def upload(terminal: Terminal, library, model, api, ada) -> Upload:
    """Begun by ada, with nothing sent yet."""
    terminal.token = cast.token_of(ada)
    return Upload.objects.get(pk=Uploader(api, b.model_files()).begun["id"])


def test_what_is_under_way_is_listed_shown_and_cancelled(terminal: Terminal, upload: Upload) -> None:
    assert "laptop:/work" in terminal("upload", "list", "tiny").out
    assert [row["model"] for row in terminal(*JSON, "upload", "list").document] == ["tiny"]
    stranger = cast.token_of(cast.person("bob", audio="developer"))
    assert terminal(*JSON, "upload", "list", token=stranger).document == []
    shown = terminal("upload", "show", "tiny", upload.pk)
    assert f"Upload {upload.pk} to tiny is open, 0 % uploaded" in shown.out
    assert len(terminal(*JSON, "upload", "show", "tiny", upload.pk).document["missing"]) > 1
    assert terminal("upload", "cancel", "tiny", upload.pk).status == 2
    said = terminal("upload", "cancel", "--yes", "tiny", upload.pk, "--reason", "Wrong files.")
    assert (said.status, "is cancelled" in said.out, "Wrong files." in said.out) == (0, True, True)
    assert terminal(*JSON, "upload", "list", "tiny").document == []
    assert [row["id"] for row in terminal(*JSON, "upload", "list", "tiny", "--all").document] == [upload.pk]
    assert terminal(*JSON, "upload", "list", "tiny", "--state", "done").document == []


def test_an_upload_that_is_over_is_a_conflict_and_an_unknown_one_wrong_usage(
    terminal: Terminal, upload: Upload
) -> None:
    terminal("upload", "cancel", "--yes", "tiny", upload.pk, "--reason", "Wrong files.")
    assert terminal("upload", "cancel", "--yes", "tiny", upload.pk, "--reason", "Again.").status == 1
    assert terminal("upload", "show", "tiny", 9999).status == 2
    assert terminal("upload", "list", "none").status == 2
    assert terminal("upload", "list", "tiny", "--state", "asleep").status == 2
