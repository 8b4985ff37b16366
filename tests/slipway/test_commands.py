"""Models, aliases, releases and tokens from the command line."""

import json
from pathlib import Path

import httpx2
import pytest
from django.utils import timezone

from accounts.models import ApiToken
from models_registry.models import Alias, Model, Version, VersionSignature
from models_registry.services.catalogue import create_model
from releases.models import Release
from slipway.client import Client, ServerRefused, at
from slipway.exits import CommandFailed, Exit
from tests.cast import SYSTEM, team
from tests.clusters.world import version_of
from tests.models_registry.conftest import Library, library
from tests.releases.world import Scene
from tests.slipway.conftest import URL, Terminal, token_for

JSON = ("--output", "json")

__all__ = ["library"]


def test_a_pushed_directory_becomes_a_ready_version_of_a_new_model(
    terminal: Terminal, developer: str, library: Library
) -> None:
    terminal.while_waiting = library.settle

    said = terminal(
        "models", "push", library.directory(), "--model", "tiny", "--create", "--message", "first",
        "--alias", "production", "--server-path",
    )  # fmt: skip

    assert said.status == 0, said
    assert said.out.startswith("tiny:v1 ready, ")
    version = Version.objects.get(model__name="tiny")
    assert (version.state, version.message) == ("ready", "first")
    alias = Alias.objects.get(name="production")
    assert (alias.version, alias.reason) == (version, "first")


def test_a_push_that_is_refused_ends_with_1_and_says_why(
    terminal: Terminal, developer: str, library: Library
) -> None:
    terminal.while_waiting = library.settle
    directory = library.directory()
    (directory / "model.safetensors").write_bytes(b"\x7fELF" + b"\0" * 60)

    said = terminal(*JSON, "models", "push", directory, "--model", "tiny", "--create", "--jobs", 1)

    assert said.status == 1
    assert said.document["state"] == "refused"
    assert said.document["reason"] in said.err


def test_a_push_from_outside_the_import_roots_makes_no_sense(
    terminal: Terminal, developer: str, library: Library, tmp_path: Path
) -> None:
    said = terminal("models", "push", tmp_path, "--model", "tiny", "--create", "--server-path")

    assert said.status == 2
    assert "source:" in said.err
    said = terminal("models", "push", "file://brno/srv/m", "--model", "tiny", "--server-path")
    assert "No living host has the name brno" in said.err


def test_an_alias_moves_and_remembers(terminal: Terminal, developer: str) -> None:
    version_of(team("vision"), "tiny:v1")
    version_of(team("vision"), "tiny:v2")
    for name in ("v1", "v2"):
        said = terminal("alias", "set", "production", f"tiny:{name}", "--reason", f"because {name}")
        assert (said.status, said.out) == (0, f"tiny:production points at {name}\n")

    said = terminal(*JSON, "alias", "history", "production", "--model", "tiny")

    moves = [(row["from_version"], row["to_version"], row["by"], row["reason"]) for row in said.document]
    assert moves == [("v1", "v2", "ada", "because v2"), (None, "v1", "ada", "because v1")]


def test_releases_are_listed_by_service_and_state(terminal: Terminal, scene: Scene) -> None:
    release = scene.start()

    def listed(*options: str) -> list[int]:
        said = terminal(*JSON, "release", "list", *options)
        assert said.status == 0, said
        return [row["id"] for row in said.document]

    first = Release.objects.exclude(pk=release.pk).get().pk
    assert listed() == [release.pk, first]
    assert listed("--service", scene.name, "--state", "promoted") == [first]
    unknown = terminal("release", "list", "--service", "another")
    assert (unknown.status, "no such service" in unknown.err) == (2, True)
    assert listed("--limit", "1") == [release.pk]
    assert terminal("release", "list", "--state", "asleep").status == 2


def test_a_filter_that_the_api_does_not_know_is_refused(terminal: Terminal, developer: str) -> None:
    with (
        Client(URL, developer, transport=terminal.wire) as client,
        pytest.raises(ServerRefused, match="servise"),
    ):
        client.get(at("releases"), servise="chat")


def test_a_list_of_several_pages_is_read_to_its_end(terminal: Terminal, developer: str) -> None:
    for number in range(5):
        create_model(actor=SYSTEM, team=team("vision"), name=f"model-{number}", task="text-generation")
    with Client(URL, developer, transport=terminal.wire) as client:
        names = [row["name"] for row in client.each(at("models"), limit=2, q="model")]

    assert names == [f"model-{number}" for number in range(5)]
    assert len(terminal.wire.sent) == 3


def test_a_lost_answer_does_not_create_twice(terminal: Terminal, scene: Scene) -> None:
    terminal.wire.lose = 1
    before = Release.objects.count()

    said = terminal(*JSON, "release", "start", "--yes", scene.name, scene.v2, "--reason", "better")

    assert said.status == 0, said
    assert Release.objects.count() == before + 1
    assert said.document["id"] == Release.objects.latest("pk").pk
    first, second = terminal.wire.sent
    assert first.headers["Idempotency-Key"] == second.headers["Idempotency-Key"]


def test_a_lost_answer_to_an_abort_is_asked_for_again(terminal: Terminal, scene: Scene) -> None:
    release = scene.start()
    terminal.wire.lose = 1

    said = terminal("release", "abort", "--yes", release.pk, "--reason", "no")

    assert said.status == 0, said
    assert "is rolling back" in said.out


def test_a_creation_that_is_still_at_work_is_waited_for() -> None:
    answers = iter(
        [
            httpx2.Response(409, json={"type": "urn:slipway:problem:idempotency-in-flight"}),
            httpx2.Response(201, json={"name": "tiny"}),
        ]
    )
    transport = httpx2.MockTransport(lambda _request: next(answers))
    with Client(URL, "slp_x", transport=transport, sleep=lambda _seconds: None) as client:
        assert client.create(at("models"), {"name": "tiny"}) == {"name": "tiny"}


def test_a_server_that_stays_away_is_given_up() -> None:
    transport = httpx2.MockTransport(lambda _request: httpx2.Response(503))
    with (
        Client(URL, "slp_x", transport=transport, sleep=lambda _seconds: None) as client,
        pytest.raises(CommandFailed, match="HTTP status 503") as failed,
    ):
        client.create(at("models"), {"name": "tiny"})
    assert failed.value.exit is Exit.UNREACHABLE


def test_the_secret_of_a_token_is_shown_once_and_works(terminal: Terminal, developer: str) -> None:
    said = terminal(
        "token", "create", "ci", "--scope", "read", "--scope", "releases.start", "--team", "vision"
    )

    secret = said.out.strip()
    assert said.status == 0, said
    assert secret.startswith("slp_")
    listed = terminal(*JSON, "token", "list", token=secret)
    assert listed.status == 0
    (row,) = (row for row in listed.document if row["name"] == "ci")
    assert (row["scopes"], row["team"], row["state"]) == (["read", "releases.start"], "vision", "active")
    assert secret not in listed.out + listed.err


def test_a_token_does_not_outlive_the_one_that_makes_it(terminal: Terminal, developer: str) -> None:
    create = ("token", "create", "ci", "--scope", "read")

    said = terminal(*create, "--expires-in-days", 30)

    assert said.status == 7
    assert "later than itself" in said.err
    assert terminal(*create).status == 0
    assert len(set(ApiToken.objects.values_list("expires_at", flat=True))) == 1


def test_a_program_finds_the_secret_in_the_document_and_nowhere_else(
    terminal: Terminal, developer: str
) -> None:
    said = terminal(*JSON, "token", "create", "ci", "--scope", "read")

    assert said.document["token"].startswith("slp_")
    assert said.document["token"] not in said.err


def test_a_revoked_token_opens_nothing_more(terminal: Terminal, developer: str) -> None:
    secret = terminal("token", "create", "ci", "--scope", "read").out.strip()
    pk = ApiToken.objects.get(name="ci").pk

    said = terminal("token", "revoke", "--yes", pk, "--reason", "It got out.")

    assert (said.status, said.out) == (0, f"Token {pk} is revoked.\n")
    assert terminal("models", "list", token=secret).status == 7


def test_a_token_with_a_right_that_does_not_exist_makes_no_sense(terminal: Terminal, developer: str) -> None:
    said = terminal(*JSON, "token", "create", "bot", "--preset", "approver")
    assert said.document["scopes"] == ["read", "releases.approve"]
    said = terminal("token", "create", "ci", "--scope", "everything")

    assert said.status == 2
    assert "everything" in said.err
    assert not ApiToken.objects.filter(name="ci").exists()


def test_the_signature_of_a_version_is_fetched_into_a_file(
    terminal: Terminal, developer: str, tmp_path: Path
) -> None:
    version = version_of(team("vision"), "tiny:v1")
    signed = {"bundle": '{"mediaType": "x"}', "verdict": "unknown", "verified_at": timezone.now()}
    VersionSignature.objects.create(version=version, origin="files", **signed)
    terminal("models", "signature", "tiny:v1", "--to", tmp_path / "v1.sig")
    assert json.loads((tmp_path / "v1.sig").read_text()) == {"mediaType": "x"}
    missing = terminal("models", "signature", "tiny:v1", "--to", tmp_path / "x", "--origin", "slipway")
    assert (missing.status, "no signature of this origin" in missing.err) == (Exit.USAGE, True)


def test_an_approver_sees_the_first_versions_model(terminal: Terminal, scene: Scene) -> None:
    said = terminal("models", "list", "--search", "story", token=token_for(scene.approver))

    assert Model.objects.get().name in said.out


def test_a_version_says_where_it_comes_from_and_is_tagged_archived_and_restored(
    terminal: Terminal, developer: str, library: Library
) -> None:
    terminal.while_waiting = library.settle
    pushed = terminal(
        "models", "push", library.directory(), "--model", "tiny", "--create",
        "--base-model", "hf://acme/base", "--job", "job 7", "--data", "s3://a", "--data", "s3://b",
        "--server-path",
    )  # fmt: skip
    assert pushed.status == 0, pushed
    version = Version.objects.get(model__name="tiny")
    assert version.lineage == {"base_model": "hf://acme/base", "job": "job 7", "data": ["s3://a", "s3://b"]}

    assert "good" in terminal("models", "tag", "tiny:v1", "--add", "good").out
    assert terminal("models", "archive", "tiny:v1", "--reason", "old").out.startswith("tiny:v1 archived")
    assert "v1" not in terminal("models", "show", "tiny").out
    assert terminal("models", "restore", "tiny:v1").out.startswith("tiny:v1 ready")
