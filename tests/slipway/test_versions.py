"""Models made and changed, versions imported from the server, listed, shown and tried again."""

import os
import pickle

import pytest

from accounts.states import Role
from models_registry.models import Model, Version
from models_registry.services import aliases, imports
from tests.cast import person, token_of
from tests.models_registry import builders as b
from tests.models_registry.conftest import Library, actor, ada, library, model
from tests.slipway.conftest import Terminal

JSON = ("--output", "json")

__all__ = ["actor", "ada", "library", "model"]


@pytest.fixture
def typing(terminal: Terminal, library: Library, ada) -> Terminal:
    terminal.token = token_of(ada)
    terminal.while_waiting = library.settle
    return terminal


def test_a_model_is_created_edited_and_deleted_with_its_versions(
    typing: Terminal, library: Library, actor
) -> None:
    assert (
        typing("models", "create", "tiny", "--task", "text-generation").out
        == "tiny is created; owner: vision.\n"
    )
    assert typing("models", "edit", "tiny", "--description", "Small.").status == 0
    row = Model.objects.get()
    assert (row.task, row.description) == ("text-generation", "Small.")
    library.ready(actor, row)
    unsaid = typing("models", "delete", "tiny", "--whole-model")
    assert (unsaid.status, "1 ready" in unsaid.err) == (2, True)
    aliases.set_alias(actor=actor, model=row, alias="production", version=Version.objects.get())
    surely = ("--yes", "--reason", "Nobody needs it.")
    needed = typing("models", "delete", "tiny", "--whole-model", *surely)
    assert (needed.status, "still has the alias production. Delete it first" in needed.err) == (1, True)
    typing("alias", "delete", "production", "--model", "tiny", *surely)
    assert typing("models", "delete", "tiny", "--whole-model", *surely).status == 0
    assert not Model.objects.live().exists()


def test_what_is_no_name_of_a_version_deletes_no_model(typing: Terminal, model: Model) -> None:
    assert typing("models", "delete", "tiny", "--yes").status == 2
    assert typing("models", "delete", "tiny:v1", "--whole-model", "--yes").status == 2
    assert Model.objects.live().exists()


def test_models_that_cannot_be_are_refused(typing: Terminal, model: Model) -> None:
    assert typing("models", "create", "tiny").status == 1
    assert typing("models", "create", "No Name").status == 2
    assert typing("models", "create", "other", "--team", "nowhere").status == 2
    assert typing("models", "edit", "tiny").status == 2
    assert typing("models", "edit", "none", "--task", "x").status == 2
    viewer = token_of(person("vera", vision=Role.VIEWER))
    assert typing("models", "edit", "tiny", "--task", "x", token=viewer).status == 7


def test_a_directory_of_the_server_becomes_a_version_with_tags_and_lineage(
    typing: Terminal, library: Library, model: Model
) -> None:
    card = b"# Tiny\r\n:rocket: [bold] \xc2\x9b31m\n"
    b.write(library.root / "model", b.model_files() | {"notes.txt": b"mine", "README.md": card})
    told = ("--message", "first", "--tag", "good", "--tag", "small", "--job", "job 7", "--ignore", "notes.*")
    said = typing("models", "import", "tiny", "model", "--root", library.root, *told)
    assert said.status == 0, said
    assert said.out.startswith("tiny:v1 ready, ")
    version = Version.objects.get()
    assert (version.message, version.lineage) == ("first", {"job": "job 7"})
    shown = typing("models", "show", "tiny:v1").out
    assert "good small" in shown
    assert "job 7" in shown
    assert "model.safetensors" in shown
    assert "notes.txt" not in shown
    assert typing("models", "card", "tiny:v1").out == "# Tiny\n:rocket: [bold] \N{REPLACEMENT CHARACTER}31m\n"
    assert typing("models", "card", "tiny:v9").status == 2
    document = typing(*JSON, "models", "show", "tiny:v1").document
    assert [move["to_state"] for move in document["history"]] == ["importing", "ready"]


def test_sources_that_the_server_may_not_read_are_wrong_usage(
    typing: Terminal, library: Library, model: Model, settings
) -> None:
    said = typing("models", "import", "tiny", "model")
    assert (said.status, "source places" in said.err) == (2, True)
    settings.SLIPWAY_HUB_ENDPOINTS = ("https://ci:secret@hub.example.org:8443/hf",)
    places = typing(*JSON, "source", "places").document
    hub = "https://hub.example.org:8443/hf"
    assert (places["directories"], places["hubs"]) == ([str(library.root)], [hub])
    assert hub in typing("source", "places").out
    viewer = token_of(person("vera", vision=Role.VIEWER))
    assert typing("source", "places", token=viewer).status == 7
    for whole in ("/etc", "hf://acme/tiny"):
        assert typing("models", "import", "tiny", whole, "--root", library.root).status == 2
    said = typing("models", "import", "tiny", "/etc")
    assert (said.status, "source:" in said.err) == (2, True)
    assert typing("models", "import", "none", library.directory()).status == 2
    assert not Version.objects.exists()


def test_a_tag_that_cannot_be_does_not_hide_that_the_version_is_imported(
    typing: Terminal, library: Library, model: Model
) -> None:
    said = typing("models", "import", "tiny", library.directory(), "--tag", "no tag!")
    assert (said.status, "tiny:v1 is imported, but its tags are missing" in said.err) == (2, True)
    assert Version.objects.get().state == "importing"


def test_an_import_is_cancelled_and_tried_again(typing: Terminal, library: Library, model: Model) -> None:
    assert typing("models", "import", "tiny", library.directory(), "--no-wait").status == 0
    cancelled = typing("models", "cancel", "--yes", "tiny:v1", "--reason", "The wrong one.")
    assert (cancelled.status, "The wrong one." in cancelled.out) == (0, True)
    assert typing("models", "cancel", "--yes", "tiny:v1").status == 1
    library.settle()
    again = typing("models", "retry", "tiny:v1")
    assert (again.status, again.out) == (0, "tiny:v1 is ready.\n")
    assert typing("models", "retry", "tiny:v1").status == 1
    assert typing("models", "retry", "tiny:v9").status == 2
    assert "models show tiny:v1" in typing("models", "verify", "tiny:v1").out


def test_waiting_for_an_import_that_is_refused_ends_with_1(
    typing: Terminal, library: Library, model: Model
) -> None:
    directory = library.directory()
    (directory / "model.safetensors").write_bytes(b"\x7fELF" + b"\0" * 60)
    said = typing("models", "import", "tiny", directory)
    assert (said.status, "refused" in said.err) == (1, True)
    assert "model.safetensors  it is not valid safetensors" in typing("models", "show", "tiny:v1").out


def test_what_the_scan_found_is_shown(typing: Terminal, library: Library, model: Model) -> None:
    directory = library.directory()
    (directory / "modeling.py").write_text("import os\n")
    (directory / "notes.txt").write_text("\n" + "hf_" + "a1" * 20)
    assert typing("models", "import", "tiny", directory).status == 0
    shown = typing("models", "show", "tiny:v1").out
    assert "modeling.py        Python code, which loaders run with trust_remote_code." in shown
    assert "notes.txt, line 2  It seems to hold a token of Hugging Face." in shown


def test_what_picklescan_says_is_shown_as_advice(typing: Terminal, library: Library, model: Model) -> None:
    typing.token = token_of(person("cleo", vision=Role.ADMIN))
    assert typing("exemption", "give", "vision", "--runnable", "--reason", "vocoder").status == 0
    assert "code and pickles" in typing("exemption", "list").out
    directory = library.directory()
    (directory / "plain.pkl").write_bytes(pickle.dumps({"a": 1}))
    (directory / "odd.pkl").write_bytes(pickle.dumps(os.system))
    assert typing("models", "import", "tiny", directory).status == 0
    shown = " ".join(typing("models", "show", "tiny:v1").out.split())
    assert "pickle odd.pkl picklescan reports posix.system (dangerous)." in shown
    assert "pickle plain.pkl picklescan reports nothing; that is no proof of safety." in shown


def test_versions_are_listed_by_state_and_tag(
    typing: Terminal, library: Library, model: Model, actor
) -> None:
    for fill in (b"\x01", b"\x02", b"\x03"):
        library.ready(actor, model, fill=fill)
    typing("models", "tag", "tiny:v2", "--add", "good")
    typing("models", "archive", "tiny:v3", "--reason", "old")

    def listed(*options: str) -> list[str]:
        return [row["name"] for row in typing(*JSON, "models", "versions", "tiny", *options).document]

    assert listed() == ["v2", "v1"]
    assert listed("--state", "archived", "--state", "ready") == ["v3", "v2", "v1"]
    assert listed("--tag", "good") == ["v2"]
    assert listed("--served") == []
    assert "good" in typing("models", "versions", "tiny").out
    assert typing(*JSON, "models", "list", "--versions", "failed").document == []
    assert typing("models", "versions", "tiny", "--state", "asleep").status == 2


def test_what_is_known_of_a_network_is_shown_with_its_memory(
    typing: Terminal, library: Library, actor, model: Model
) -> None:
    library.ready(actor, model)
    shown = {" ".join(line.split()) for line in typing("models", "show", "tiny:v1").out.splitlines()}
    assert {"parameters 64", "context 512 tokens", "weights safetensors F32"} <= shown
    assert {"GPU memory 256 B for weights", "KV cache 1.0 MB for 1,000 tokens, in F32"} <= shown


def test_words_in_square_brackets_stand_in_a_table_as_they_were_written(
    typing: Terminal, library: Library, actor, model: Model
) -> None:
    words = "[red]half[/oops] the :rocket: [memory]"
    imports.import_version(actor=actor, model=model, source=str(library.directory()), message=words)
    for command in ("versions tiny", "show tiny", "show tiny:v1"):
        said = typing("models", *command.split())
        assert (said.status, words in said.out) == (0, True), command
