"""`slipway models export`, against a hub of our own."""

from pathlib import Path

import pytest

from hubs.models import Export
from tests.cast import token_of
from tests.hubs.outward import REPO, Outward, bo, outward
from tests.models_registry.conftest import actor, ada, library, model
from tests.slipway.conftest import Terminal

JSON = ("--output", "json")
WHY = ("--reason", "They asked for it.")

__all__ = ["actor", "ada", "bo", "library", "model", "outward"]


@pytest.fixture
def sending(terminal: Terminal, outward: Outward, bo, tmp_path: Path) -> Terminal:
    terminal.token = token_of(bo)
    terminal.while_waiting = outward.settle
    (tmp_path / "token").write_text("hf_write\n")
    return terminal


def test_a_version_is_published_once(sending: Terminal, outward: Outward, tmp_path: Path) -> None:
    token = ("--hub-token-file", tmp_path / "token")
    said = sending("models", "export", "tiny:v1", REPO, *token, *WHY)
    assert said.status == 0, said
    commit = outward.server.repository(REPO).branches["main"]
    assert said.out.startswith(f"{REPO}@main done {commit}, ")
    again = sending(*JSON, "models", "export", "tiny:v1", REPO, *token, *WHY)
    assert (again.status, again.document["commit"]) == (0, commit)
    assert "hf_write" not in said.out + said.err + again.out


def test_a_repository_is_made_private_unless_told_otherwise(
    sending: Terminal, outward: Outward, tmp_path: Path
) -> None:
    options = ("--create", "--hub-token-file", tmp_path / "token", "--ignore", "*.md", *WHY)
    assert sending("models", "export", "tiny:v1", "acme/new@v1", *options).status == 0
    assert sending("models", "export", "tiny:v1", "acme/open", "--public", *options).status == 0
    assert outward.server.writing.private == {"acme/new": True, "acme/open": False}


def test_what_stands_in_the_way_ends_with_1_and_the_same_command_goes_on(
    sending: Terminal, outward: Outward, tmp_path: Path
) -> None:
    outward.server.writing.answers["commit"] = [(500, {}, "")] * 50
    command = ("models", "export", "tiny:v1", REPO, "--hub-token-file", tmp_path / "token", *WHY)
    said = sending(*command)
    assert said.status == 1
    assert "The same command goes on from there." in said.err
    outward.server.writing.answers.clear()
    assert sending(*command).status == 0
    assert Export.objects.count() == 1


def test_a_publication_without_a_reason_ends_with_2(sending: Terminal) -> None:
    assert sending("models", "export", "tiny:v1", REPO).status == 2
    assert not Export.objects.exists()


def test_an_export_is_paused_resumed_listed_shown_and_cancelled(sending: Terminal, outward: Outward) -> None:
    number = outward.start().pk
    assert "is paused" in sending("export", "pause", number, "--reason", "The line is needed.").out
    waited = sending("export", "show", number, "--wait")
    assert (waited.status, f"slipway export resume {number}" in waited.err) == (1, True)
    assert sending("export", "resume", number).status == 0
    assert sending("export", "show", number, "--wait").status == 0
    (row,) = sending(*JSON, "export", "list", "--model", "tiny", "--state", "done").document
    assert row["commit"] == outward.server.repository(REPO).branches["main"]
    assert f"{REPO}@main" in sending("export", "list").out
    assert sending(*JSON, "export", "list", "--version", "v9").document == []
    assert sending("export", "cancel", "--yes", number).status == 1
    again = outward.start(repo_id="acme/other", create=True)
    assert "is cancelled" in sending("export", "cancel", "--yes", again.pk).out
    assert sending("export", "show", 9999).status == 2


def test_a_failed_export_is_tried_again_with_another_token(
    sending: Terminal, outward: Outward, tmp_path: Path
) -> None:
    number = outward.start(token="hf_read").pk
    outward.settle()
    assert sending("export", "show", number, "--wait").status == 1
    missing = sending("export", "retry", number, "--hub-token-file", tmp_path / "none")
    assert (missing.status, "No such file" in missing.err) == (2, True)
    assert sending("export", "retry", number, "--hub-token-file", tmp_path / "token").status == 0
    assert sending("export", "show", number, "--wait").status == 0
