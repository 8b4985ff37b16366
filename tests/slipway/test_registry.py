"""Care of the registry from the command line: retention, the store, exemptions, figures, comparison."""

import json

import pytest

from accounts.states import Role
from common.models import AuditRecord
from model_store.reconcilers.collections import CollectionReconciler
from models_registry.models import CodeExemption, Evaluation, RetentionRule, Version
from models_registry.services import imports
from tests.cast import person, token_of
from tests.crash.harness import worker
from tests.model_store.test_checking import damage, kernel_of
from tests.models_registry import builders as b
from tests.models_registry.conftest import Library, actor, ada, library, model
from tests.slipway.conftest import Terminal

JSON = ("--output", "json")

__all__ = ["actor", "ada", "library", "model"]


@pytest.fixture
def typing(terminal: Terminal, library: Library, ada, actor, model) -> Terminal:
    """The terminal of ada, who has two versions of tiny."""
    for fill in (b"\x01", b"\x02"):
        library.ready(actor, model, fill=fill)
    terminal.token = token_of(ada)
    return terminal


@pytest.fixture
def root(typing: Terminal) -> Terminal:
    typing.token = token_of(person("root", superuser=True))
    return typing


def test_a_rule_is_set_looked_at_applied_and_dropped(typing: Terminal, library: Library) -> None:
    typing.while_waiting = library.retain
    assert (
        "tiny keeps the newest 1 version; applied manually"
        in typing("models", "retention", "set", "tiny", "--keep-last", 1).out
    )
    seen = typing(*JSON, "models", "retention", "preview", "tiny").document
    assert [(one["version"], one["goes"]) for one in seen["versions"]] == [("v2", False), ("v1", True)]
    unsaid = typing("models", "retention", "apply", "tiny")
    assert (unsaid.status, "--yes" in unsaid.err) == (2, True)
    stale = typing("models", "retention", "apply", "--yes", "tiny", "--preview", "0" * 16)
    assert (stale.status, "Check the preview again" in stale.err) == (1, True)
    applied = typing(
        *JSON, "models", "retention", "apply", "--yes", "tiny", "--preview", seen["preview"], "--daily"
    )
    assert (applied.status, applied.document["last_run"]["deleted_versions"]) == (0, 1)
    assert applied.document["daily"]
    shown = typing("models", "retention", "show", "tiny").out
    assert "deleted 1 version, " in shown
    assert "; garbage collection frees what is unreferenced" in shown
    again = typing("models", "retention", "apply", "--yes", "tiny")
    assert again.status == 0, "nothing goes any more, so nothing is asked"
    assert typing("models", "retention", "stop", "tiny").status == 0
    assert typing("models", "retention", "drop", "--yes", "tiny", "--reason", "All shall stay.").status == 0
    assert not RetentionRule.objects.exists()
    assert typing("models", "retention", "show", "tiny").status == 2


def test_a_preview_that_is_empty_deletes_nothing(typing: Terminal) -> None:
    typing("models", "retention", "set", "tiny", "--keep-last", 1)
    said = typing("models", "retention", "apply", "tiny", "--preview", "", "--yes", "--no-wait")
    assert (said.status, "--preview is empty" in said.err) == (2, True)
    assert RetentionRule.objects.get().asked is None


def test_a_version_is_deleted_and_what_only_it_needed_is_collected(root: Terminal, library: Library) -> None:
    assert root("models", "delete", "tiny:v1").status == 2
    assert root("models", "delete", "tiny:v1", "--yes", "--reason", "It is worse.").status == 0
    assert AuditRecord.objects.filter(reason="It is worse.").exists()
    assert Version.objects.get(name="v1").state == "deleted"
    library.settle()
    root.while_waiting = lambda: worker([CollectionReconciler()], library.clock).sweep()
    said = root(*JSON, "store", "collect", "--yes", "--grace-hours", 0, "--reason", "full")
    assert (said.status, said.document["state"], said.document["deleted_blobs"]) == (0, "done", 1)
    assert root(*JSON, "store", "collections").document[0]["id"] == said.document["id"]
    assert "0 files corrupt or missing" in root("store", "show").out


def test_a_check_that_finds_damage_ends_with_1_and_names_the_versions(
    root: Terminal, library: Library
) -> None:
    damage(library, Version.objects.get(name="v2"))
    root.while_waiting = lambda: kernel_of(library).sweep()
    said = root("store", "check", "--reason", "after the power cut")
    assert (said.status, "1 corrupt" in said.err) == (1, True)
    (found,) = root(*JSON, "store", "findings").document
    assert found["versions"] == ["tiny:v2"]
    assert "tiny:v2" in root("store", "findings").out
    assert root("store", "checks").status == 0


def test_only_administrators_look_after_the_store(typing: Terminal) -> None:
    assert typing("store", "show").status == 7


def test_an_exemption_is_given_listed_and_ended(typing: Terminal) -> None:
    assert typing("exemption", "give", "vision", "--reason", "read").status == 7
    typing.token = token_of(person("cleo", vision=Role.ADMIN))
    given = typing(*JSON, "exemption", "give", "vision", "--model", "tiny", "--days", 7, "--reason", "read")
    assert (given.status, given.document["model"]) == (0, "tiny")
    assert "tiny" in typing("exemption", "list", "--team", "vision").out
    assert typing("exemption", "end", "--yes", given.document["id"], "--reason", "done").status == 0
    assert typing(*JSON, "exemption", "list").document == []
    assert len(typing(*JSON, "exemption", "list", "--all").document) == CodeExemption.objects.count() == 1


def test_figures_are_recorded_shown_taken_back_and_compared(
    typing: Terminal, library: Library, actor, model
) -> None:
    for version, value in (("v1", 0.5), ("v2", 0.75)):
        told = ("--dataset", "mmlu", "--higher-is-better", "--link", "https://ci.example.org/9")
        said = typing(
            "models", "evaluate", f"tiny:{version}", "-f", f"accuracy={value}", "-f", "loss=2", *told
        )
        assert said.status == 0, said
    assert "accuracy" in typing("models", "metrics", "tiny:v2").out
    assert typing("models", "evaluate", "tiny:v2", "--metric", "loss=", "--dataset", "mmlu").status == 0
    shown = typing(*JSON, "models", "metrics", "tiny:v2").document["figures"]
    assert [(one["name"], one["value"]) for one in shown] == [("accuracy", 0.75)]
    assert Evaluation.objects.count() == 5
    told = typing(*JSON, "models", "metrics", "tiny:v2", "--history").document
    assert [(one["name"], one["value"]) for one in told] == [("loss", None), ("loss", 2), ("accuracy", 0.75)]
    assert "removed" in typing("models", "metrics", "tiny:v2", "--history").out
    compared = typing("models", "compare", "tiny:v1", "tiny:v2")
    assert compared.status == 0
    assert "+0.25 better" in compared.out
    assert "model.safetensors" in compared.out
    for wrong in ("accuracy", "=1", "accuracy=high", "accuracy=nan"):
        assert typing("models", "evaluate", "tiny:v2", "-f", wrong).status == 2


def test_a_key_that_is_null_is_not_told_as_one_that_is_missing(
    typing: Terminal, library: Library, actor, model
) -> None:
    config = b.CONFIG | {"pad_token_id": None, "tie_word_embeddings": True}
    source = b.write(library.root / "padded", b.model_files() | {"config.json": json.dumps(config).encode()})
    imports.import_version(actor=actor, model=model, source=str(source))
    library.settle()
    told = {" ".join(line.split()) for line in typing("models", "compare", "tiny:v2", "v3").out.splitlines()}
    assert {"pad_token_id added null", "tie_word_embeddings added true"} <= told


def test_what_a_card_holds_does_not_steer_the_terminal(
    typing: Terminal, library: Library, actor, model
) -> None:
    files = b.model_files() | {"README.md": b"# \x1b]0;owned\x07 \x1b[2J\n"}
    source = b.write(library.root / "hostile", files)
    imports.import_version(actor=actor, model=model, source=str(source))
    library.settle()
    said = typing("models", "compare", "tiny:v2", "v3")
    assert "owned" in said.out
    assert "\x1b" not in said.out


def test_the_list_is_narrowed_as_over_rest(typing: Terminal) -> None:
    found = typing(
        *JSON, "models", "list", "--architecture", "llama", "--not-served", "--parameters-max", "1K"
    )
    assert [row["name"] for row in found.document] == ["tiny"]
    wrong = typing("models", "list", "--parameters-min", "many")
    assert (wrong.status, "parameters_min" in wrong.err) == (2, True)
