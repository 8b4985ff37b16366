"""`slipway source` and `slipway sync`: what models follow, and the syncs of it."""

from pathlib import Path

import pytest

from accounts.states import Role
from hubs.models import HubSource, HubSync
from hubs.services import syncs
from models_registry.models import Model, Version
from tests.cast import SYSTEM, person, team, token_of
from tests.models_registry.conftest import REPO, Chat, Hubs, chat, hubs, library
from tests.slipway.conftest import Terminal

JSON = ("--output", "json")

__all__ = ["chat", "hubs", "library"]


@pytest.fixture
def typing(terminal: Terminal, hubs: Hubs) -> Terminal:
    """The terminal of ada, a developer of the team that owns tiny."""
    terminal.token = token_of(person("ada", vision=Role.DEVELOPER))
    Model.objects.create(team=team("vision"), name="tiny")
    terminal.while_waiting = hubs.settle
    return terminal


@pytest.fixture
def source(typing: Terminal) -> HubSource:
    return syncs.create_hub_source(actor=SYSTEM, model=Model.objects.get(), repo_id=REPO)


def test_a_repository_is_followed_listed_changed_and_followed_no_longer(
    typing: Terminal, tmp_path: Path
) -> None:
    secret = tmp_path / "token"
    secret.write_text("hf_secret\n")
    given = ("--every", 3600, "--ignore", "*.md", "--hub-token-file", secret)
    followed = typing(*JSON, "source", "follow", "tiny", f"hf://{REPO}@main", *given)
    assert followed.status == 0, followed
    number = followed.document["id"]
    listed = typing("source", "list", "--model", "tiny")
    assert (f"{REPO}@main" in listed.out, "every 3600 s" in listed.out) == (True, True)
    cleared = ("--no-schedule", "--all-files", "--forget-token", "--revision", "v2")
    assert "on request" in typing("source", "edit", number, *cleared).out
    row = HubSource.objects.get()
    assert (row.every_seconds, row.ignore_patterns, row.has_token, row.ref) == (None, [], False, "v2")
    assert typing("source", "unfollow", number).status == 2
    said = typing("source", "unfollow", number, "--yes", "--reason", "It has moved.")
    assert said.out == f"tiny no longer follows {REPO}@v2.\n"
    assert typing(*JSON, "source", "list").document == []
    assert "hf_secret" not in followed.out + followed.err + listed.out


def test_new_versions_are_released_where_and_how_it_is_said_or_registered_only(
    typing: Terminal, chat: Chat, source: HubSource
) -> None:
    assert typing("source", "edit", source.pk, "--release-to", "chat", "--plan", "swift").status == 0
    assert "chat swift" in typing("source", "show", source.pk).out
    assert typing("source", "edit", source.pk, "--plan", "").status == 0
    source.refresh_from_db()
    assert (source.release_to, source.release_plan) == ("chat", "")
    assert typing("source", "edit", source.pk, "--register-only").status == 0
    source.refresh_from_db()
    assert source.release_to == ""


def test_the_secret_of_the_hubs_webhook_is_shown_once_and_rotated_when_that_is_said(
    typing: Terminal, source: HubSource
) -> None:
    first = typing("source", "webhook-secret", source.pk)
    assert f"/hub-notices/{source.pk}/" in first.out
    unsaid = typing("source", "webhook-secret", source.pk)
    assert (unsaid.status, "--yes" in unsaid.err) == (2, True)
    again = typing(*JSON, "source", "webhook-secret", source.pk, "--yes")
    assert again.document["secret"] not in first.out + again.err
    assert "and by webhook" in typing("source", "show", source.pk).out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("edit", "{id}"), "Nothing to change"),
        (("edit", "{id}", "--every", 3600, "--no-schedule"), "--no-schedule"),
        (("edit", "{id}", "--release-to", "chat", "--register-only"), "--register-only"),
        (("edit", "{id}", "--hub-token-file", "/nowhere"), "No such file"),
        (("edit", "{id}", "--every", 1), "every"),
        (("edit", "{id}", "--every", 0), "every"),
        (("edit", 9999, "--every", 3600), ""),
        (("follow", "none", REPO), "model"),
        (("follow", "tiny", "../etc"), "repo_id"),
        (("follow", "tiny", REPO, "--kind", "ftp"), "kind"),
    ],
)
def test_what_makes_no_sense_ends_with_2_and_changes_nothing(
    typing: Terminal, source: HubSource, arguments: tuple[object, ...], words: str
) -> None:
    said = typing("source", *(str(one).format(id=source.pk) for one in arguments))
    assert (said.status, words in said.err) == (2, True), said
    revision = source.revision
    source.refresh_from_db()
    assert source.revision == revision


def test_what_is_followed_already_ends_with_1_and_who_only_reads_with_7(
    typing: Terminal, source: HubSource
) -> None:
    taken = typing("source", "follow", "tiny", REPO)
    assert (taken.status, "already" in taken.err) == (1, True)
    viewer = token_of(person("vera", vision=Role.VIEWER))
    assert typing("source", "list", token=viewer).status == 0
    assert typing("source", "unfollow", source.pk, "--yes", "--reason", "x", token=viewer).status == 7
    assert HubSource.objects.live().exists()


def test_a_sync_is_listed_paused_resumed_followed_and_cancelled(
    typing: Terminal, hubs: Hubs, source: HubSource
) -> None:
    sync = syncs.start_sync(actor=SYSTEM, source=source)
    hubs.worker(start=lambda job: None).sweep()
    assert "is paused" in typing("sync", "pause", sync.pk, "--reason", "The line is needed.").out
    waited = typing("sync", "show", sync.pk, "--wait")
    assert (waited.status, f"slipway sync resume {sync.pk}" in waited.err) == (1, True)
    assert typing("sync", "resume", sync.pk).status == 0
    followed = typing(*JSON, "sync", "show", sync.pk, "--wait")
    assert (followed.status, followed.document["version"]) == (0, "v1")
    (listed,) = typing(*JSON, "sync", "list", "--model", "tiny", "--state", "done").document
    assert listed["id"] == sync.pk
    assert typing(*JSON, "sync", "list", "--source", source.pk, "--state", "failed").document == []
    over = typing("sync", "cancel", "--yes", sync.pk)
    assert (over.status, "done" in over.err) == (1, True)


def test_a_sync_shows_files_bytes_speed_and_the_time_that_is_left(
    typing: Terminal, hubs: Hubs, source: HubSource
) -> None:
    sync = syncs.start_sync(actor=SYSTEM, source=source)
    hubs.worker(start=lambda job: None).sweep()
    assert typing("sync", "show", sync.pk).out == f"Sync {sync.pk} of {REPO}@main is fetching: tiny:v1\n"
    far = {"bytes_done": 24_000_000, "bytes_total": 80_000_000, "files_done": 5, "files_total": 6}
    Version.objects.update(**far, bytes_per_second=500_000)
    shown = typing("sync", "show", sync.pk).out
    assert "tiny:v1, 24.0 MB of 80.0 MB, 5 of 6 files, 500.0 kB/s, 1 min 52 s left" in shown
    Version.objects.update(bytes_per_second=0, reason="The hub asks to wait 30 s.")
    shown = typing("sync", "show", sync.pk).out
    assert shown.endswith("5 of 6 files\nThe hub asks to wait 30 s.\n")


def test_a_sync_that_failed_is_tried_again(typing: Terminal, hubs: Hubs, source: HubSource) -> None:
    hubs.server.gated.add(REPO)
    failed = hubs.synced(source, SYSTEM)
    shown = typing("sync", "show", failed.pk, "--wait")
    assert (shown.status, "is gated" in shown.err) == (1, True)
    hubs.server.gated.clear()
    assert typing("sync", "retry", failed.pk).status == 0
    hubs.settle()
    assert HubSync.objects.latest("pk").state == "done"
    assert Version.objects.get().state == "ready"
