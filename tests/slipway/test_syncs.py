"""`slipway models sync`, against a hub of our own."""

from pathlib import Path

import httpx2
import pytest

from accounts.states import Role
from hubs.models import HubSource, HubSync
from models_registry.models import Model, Version
from tests.cast import person, team, token_of
from tests.models_registry import builders as b
from tests.models_registry.conftest import REPO, Hubs, hubs, library
from tests.slipway.conftest import Terminal

JSON = ("--output", "json")

__all__ = ["hubs", "library"]


@pytest.fixture
def syncing(terminal: Terminal, hubs: Hubs) -> Terminal:
    terminal.token = token_of(person("ada", vision=Role.DEVELOPER))
    Model.objects.create(team=team("vision"), name="tiny")
    terminal.while_waiting = hubs.settle
    return terminal


def test_a_repository_becomes_a_version_and_the_same_commit_no_second_one(syncing: Terminal) -> None:
    said = syncing("models", "sync", "tiny", REPO)
    assert said.status == 0, said
    assert said.out.startswith(f"{REPO}@main done: tiny:v1, ")
    assert said.out.endswith("tiny:v1 is ready.\n")
    again = syncing(*JSON, "models", "sync", "tiny")
    assert (again.status, again.document["state"], again.document["version"]) == (0, "current", "v1")
    assert Version.objects.count() == 1


def test_what_is_given_is_kept_at_the_source(syncing: Terminal, tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("hf_ok\n")
    options = ("--every", 3600, "--ignore", "*.md", "--hub-token-file", secret)
    said = syncing("models", "sync", "tiny", f"hf://{REPO}@main", *options, "--no-wait")
    assert said.status == 0, said
    source = HubSource.objects.get()
    assert (source.every_seconds, source.ignore_patterns, source.has_token) == (3600, ["*.md"], True)
    assert "hf_ok" not in said.out + said.err
    assert syncing("models", "sync", "tiny", REPO, "--ignore", "*.txt", "--no-wait").status == 0
    source.refresh_from_db()
    assert (source.every_seconds, source.ignore_patterns) == (3600, ["*.txt"])


def test_a_sync_that_cannot_be_ends_with_1_and_says_why(syncing: Terminal, hubs: Hubs) -> None:
    hubs.server.gated.add(REPO)
    said = syncing(*JSON, "models", "sync", "tiny", REPO)
    assert said.status == 1
    assert said.document["state"] == "failed"
    assert "is gated" in said.err


def test_an_interrupted_sync_ends_with_1_and_the_same_command_goes_on(syncing: Terminal, hubs: Hubs) -> None:
    hubs.server.faults.cut_after = [0] * 99
    hubs.server.repository(REPO).commit(b.model_files() | {"notes.txt": b"what was learnt\n" * 1000})
    syncing.while_waiting = hubs.sweep
    said = syncing("models", "sync", "tiny", REPO)
    assert said.status == 1, said
    assert "The same command goes on from there." in said.err
    hubs.server.faults.cut_after = []
    assert syncing("models", "sync", "tiny", REPO).status == 0
    assert HubSync.objects.get().state == "done"


def test_a_schedule_that_was_faster_is_joined(
    syncing: Terminal, hubs: Hubs, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = syncing.wire.handle_request

    def and_the_schedule_begins(request: httpx2.Request) -> httpx2.Response:
        answered = answer(request)
        if request.url.path.endswith("/hub-sources/") and request.method == "POST":
            hubs.worker(start=lambda job: None).sweep()
        return answered

    monkeypatch.setattr(syncing.wire, "handle_request", and_the_schedule_begins)
    assert syncing("models", "sync", "tiny", REPO, "--every", 3600, "--no-wait").status == 0
    assert HubSync.objects.get().is_scheduled


def test_waiting_ends_with_4_when_time_is_over(syncing: Terminal) -> None:
    said = syncing("models", "sync", "tiny", REPO, "--timeout", 0)
    assert said.status == 4
    assert "is still resolving" in said.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("tiny",), "follows no repository"),
        (("tiny", "../etc"), "repo_id"),
        (("tiny", REPO, "--endpoint", "http://10.0.0.1"), "endpoint"),
        (("none", REPO), "model"),
        (("tiny", REPO, "--hub-token-file", "/nowhere"), "No such file"),
    ],
)
def test_what_makes_no_sense_ends_with_2(syncing: Terminal, arguments: tuple[str, ...], words: str) -> None:
    said = syncing("models", "sync", *arguments)
    assert said.status == 2, said
    assert words in said.err
