"""Whatever is hostile is refused: by name, with the reason, and with what to do."""

from pathlib import Path

import pytest

from hubs.backends.base import HubError
from hubs.backends.connection import HubConnection
from hubs.import_source import check_endpoint
from model_store.backends.local import LocalStore
from model_store.errors import FileRefused
from model_store.file_manifest import ManifestFile, manifest_of
from model_store.paths import check_file_path
from model_store.reading import InMemoryContent
from models_registry.errors import FilesRefused, SourceNotAllowed
from models_registry.importing.directory import DirectorySource, import_directory
from models_registry.models import Upload
from models_registry.services import uploads
from tests.hubs.test_hub_fetching import fetch, hub
from tests.models_registry import builders as b
from tests.models_registry.hostile.addresses import ENDPOINTS, INWARD, REDIRECTS
from tests.models_registry.hostile.entries import ENTRIES
from tests.models_registry.hostile.files import FILES
from tests.models_registry.hostile.paths import COLLISIONS, PATHS
from trust.formats.identification import check_together, identify

__all__ = ["hub"]

WHAT_TO_DO = "Mend what must not enter, or leave it out by an ignore pattern, and import again."


@pytest.mark.parametrize("case", FILES)
def test_a_file_is_refused_by_its_name_with_the_reason(case: str) -> None:
    path, content, reason = FILES[case]
    with pytest.raises(FileRefused) as refusal:
        found = identify(path, InMemoryContent(content))
        raise check_together([found])[0][0]
    assert refusal.value.path == path
    assert reason in refusal.value.reason


@pytest.mark.parametrize("put", ENTRIES, ids=lambda put: put.__name__)
def test_an_entry_of_a_directory_refuses_the_import_with_the_reason_and_what_to_do(
    tmp_path: Path, put
) -> None:
    directory = b.model_directory(tmp_path / "model")
    (tmp_path / "secret").write_text("secret")
    put(directory)
    with LocalStore(tmp_path / "store").staging("7") as staging:
        result = import_directory(DirectorySource(str(tmp_path), "model"), staging, report=lambda _: None)
    ((path, reason),) = result.refusals
    assert (result.outcome, result.copied_bytes) == ("refused", 0)
    assert ENTRIES[put] in reason
    assert result.reason == f"{path}: {reason}. {WHAT_TO_DO}"
    path.encode()


@pytest.mark.parametrize("path", PATHS, ids=lambda path: ascii(path)[:40])
def test_a_path_is_refused_with_a_reason_that_can_be_shown(path: str) -> None:
    with pytest.raises(FileRefused) as refusal:
        check_file_path(path)
    assert PATHS[path] in refusal.value.reason
    str(refusal.value).encode()


@pytest.mark.parametrize(
    "path", [path for path in PATHS if path != "\udcff"], ids=lambda path: ascii(path)[:40]
)
def test_a_hub_that_lists_such_a_path_is_refused_before_a_byte_is_fetched(hub, store, path: str) -> None:
    hub.faults.rename = {"tokenizer.json": path}
    result = fetch(hub, store)
    assert (result.outcome, hub.sent.total()) == ("refused", 0)
    assert PATHS[path] in result.refusals[0][1]
    assert result.reason.endswith("leave it out by the patterns of the source, and sync again.")


def test_an_upload_that_announces_such_paths_is_refused_before_a_byte_comes(library, actor, model) -> None:
    for paths, reason in [*(((path,), PATHS[path]) for path in PATHS), *COLLISIONS.items()]:
        announced = [{"path": path, "size": 1, "sha256": "0" * 64} for path in paths]
        with pytest.raises(FilesRefused) as refusal:
            uploads.begin_upload(actor=actor, model=model, files=announced)
        assert reason in str(refusal.value)
    assert not Upload.objects.exists()


@pytest.mark.parametrize("paths", COLLISIONS, ids=str)
def test_paths_that_cannot_stand_beside_each_other_are_refused(paths: tuple[str, str]) -> None:
    with pytest.raises(FileRefused) as refusal:
        manifest_of([ManifestFile(path, 1, "0" * 64) for path in paths])
    assert refusal.value.path in paths
    assert COLLISIONS[paths] in refusal.value.reason


@pytest.mark.parametrize("target", REDIRECTS)
def test_a_hub_that_redirects_inward_is_not_followed(hub, store, target: str) -> None:
    hub.faults.redirect_to = target
    result = fetch(hub, store)
    assert (result.outcome, REDIRECTS[target] in result.reason) == ("failed", True), result.reason
    assert list(store.root.glob("blobs/sha256/*/*")) == []


def test_no_address_of_our_own_network_is_asked_as_a_hub() -> None:
    connection = HubConnection(trusted_hosts=())
    for url in INWARD:
        with (
            pytest.raises(HubError, match=r"private network|cannot be resolved|address that is none"),
            connection.get(url, secret_headers={}, headers={}),
        ):
            raise AssertionError(f"{url} was asked.")


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_only_hubs_that_the_operator_names_are_sources(endpoint: str) -> None:
    with pytest.raises(
        SourceNotAllowed, match="It reads from the hubs of SLIPWAY_HUB_ENDPOINTS: https://hugg"
    ):
        check_endpoint(endpoint)
