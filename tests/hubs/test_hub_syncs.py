"""Sources on hubs and their syncs: one version per commit, and a clear word for every obstacle."""

from datetime import UTC, datetime, timedelta

import pytest

from accounts.actors import of_user
from common.errors import Invalid, NotAllowed, WrongState
from common.jobs.runners.fake import FakeRunner
from common.jobs.spec import JobObservation, JobState
from common.models import AuditRecord, Intent
from hubs.backends.base import HubError
from hubs.errors import SourceTaken
from hubs.models import HubSource, HubSync
from hubs.services import syncs
from hubs.states import SyncFailureCause
from model_store.backends import local_staging as local_intake
from model_store.errors import StorageQuotaExceeded, StoreFull
from model_store.models import StorageQuota
from models_registry import files
from models_registry.errors import InUse, SourceNotAllowed
from models_registry.models import Version
from models_registry.reconcilers.versions import PauseImport
from models_registry.services import imports
from tests import cast
from tests.crash.harness import LEASE_AND_A_BIT, Checkpoints, Crash, die
from tests.models_registry import builders as b
from tests.models_registry.conftest import REPO

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]


def test_a_sync_makes_a_version_of_a_new_commit_and_none_of_the_same(hubs, actor, model, source) -> None:
    first = hubs.synced(source, actor)
    assert (first.state, first.reason) == ("done", "tiny:v1 is ready.")
    commit = hubs.server.repository(REPO).branches["main"]
    assert first.commit == first.version.source["commit"] == commit
    hubs.server.sent.clear()
    again = hubs.synced(source, actor)
    assert (again.state, again.reason) == ("current", "tiny:v1 holds this commit.")
    assert hubs.server.sent.total() == 0
    hubs.server.repository(REPO).commit(b.model_files(b"\x02"))
    assert hubs.synced(source, actor).version.name == "v2"
    assert Version.objects.filter(model=model).count() == 2


def test_its_version_is_the_one_that_an_import_of_the_same_files_makes(
    hubs, library, actor, model, source
) -> None:
    synced = hubs.synced(source, actor).version
    imported = library.ready(actor, model)
    assert synced.digest == imported.digest
    assert synced.author_name == actor.name


def test_a_version_can_name_a_repository_as_its_source(hubs, actor, model) -> None:
    version = imports.import_version(actor=actor, model=model, source=f"hf://{REPO}@main")
    hubs.settle()
    version.refresh_from_db()
    assert version.state == "ready", version.reason
    assert version.source["commit"] == hubs.server.repository(REPO).branches["main"]
    assert version.source["uri"] == f"hf://{REPO}@main"


def test_other_patterns_ask_for_another_version_of_the_same_commit(hubs, actor, source) -> None:
    hubs.synced(source, actor)
    syncs.change_hub_source(actor=actor, source=source, ignore_patterns=["*.md"])
    second = hubs.synced(source, actor)
    assert (second.state, second.version.name, second.version.file_count) == ("done", "v2", 4)


def test_the_token_opens_private_repositories_and_is_never_shown(hubs, actor, model, source) -> None:
    hubs.server.tokens[REPO] = {"hf_ok"}
    refused = hubs.synced(source, actor)
    assert refused.state == "failed"
    assert "it needs a token" in refused.reason
    syncs.change_hub_source(actor=actor, source=source, token="hf_ok")
    HubSync.objects.update(author_name="schedule", is_scheduled=True)
    again = syncs.SYNCS.ask("retry", actor=actor, transfer=refused)
    assert (again.state, again.author_name, again.is_scheduled) == ("resolving", "ada", False)
    hubs.settle()
    assert HubSync.objects.get().state == "done"
    said = [str(row) for row in AuditRecord.objects.values()] + [str(Intent.objects.values())]
    stored = HubSource.objects.values().get()
    assert not any("hf_ok" in text for text in [*said, str(stored), str(Version.objects.values())])


@pytest.mark.parametrize(
    ("prepare", "cause", "words"),
    [
        (lambda server: server.gated.add(REPO), "gated", "is gated"),
        (lambda server: server.repositories.clear(), "no_repository", "There is no repository acme/tiny"),
        (lambda server: server.repository(REPO).branches.clear(), "no_revision", "has no revision main"),
        (lambda server: server.faults.answers.extend([(500, {})] * 90), "unreachable", "fault of its own"),
        (lambda server: setattr(server.faults, "damage", b"\xff" * 9), "misbehaves", "not have the content"),
        (
            lambda server: setattr(server.faults, "commit_told", "f" * 40),
            "changed",
            "changed during the sync",
        ),
    ],
)
def test_what_stands_in_the_way_is_told_and_a_retry_gets_over_it(
    hubs, actor, model, source, prepare, cause, words
) -> None:
    server = hubs.server
    server.repository(REPO).commit(b.model_files() | {"model.safetensors": b.weights(5000)})
    kept, branches = dict(server.repositories), dict(server.repository(REPO).branches)
    prepare(server)
    sync = hubs.synced(source, actor)
    assert (sync.state, sync.cause) == ("failed", cause)
    assert words in sync.reason
    server.repositories, server.gated, server.faults = kept, set(), type(server.faults)()
    server.repository(REPO).branches = branches
    syncs.SYNCS.ask("retry", actor=actor, transfer=sync)
    hubs.settle()
    sync.refresh_from_db()
    assert (sync.state, sync.cause) == ("done", "")
    assert Version.objects.get().name == "v1"


def test_a_store_and_a_team_without_room_are_told_apart(hubs, actor, source, monkeypatch) -> None:
    assert {one.cause for one in (StoreFull, StorageQuotaExceeded, *HubError.__subclasses__())} <= {
        "",
        *SyncFailureCause,
    }
    with monkeypatch.context() as full:
        full.setattr(local_intake, "SPARE_BYTES", 2**60)
        sync = syncs.start_sync(actor=actor, source=source)
        hubs.sweep()
        sync.refresh_from_db()
        assert (sync.state, sync.cause) == ("interrupted", "store_full")
        assert "It goes on by itself when there is room." in sync.reason
        hubs.sweep()
        assert Version.objects.get().attempt == 1, "nothing is begun while too little is free"
    Version.objects.update(scan={"cause": "store_full", "needed_bytes": 1})  # so much has become free
    hubs.settle()
    sync.refresh_from_db()
    assert sync.state == "done"
    hubs.server.repository(REPO).commit({"config.json": b"{}"})
    StorageQuota.objects.create(team=source.model.team, limit_bytes=1)
    assert hubs.synced(source, actor).cause == "quota"


def test_what_must_not_enter_is_refused_and_a_schedule_does_not_ask_again(hubs, actor, source) -> None:
    hubs.server.repository(REPO).commit(b.model_files() | {"pytorch_model.bin": b"\x80\x04" + bytes(90)})
    sync = hubs.synced(source, actor)
    assert sync.state == "refused"
    assert "pytorch_model.bin" in sync.reason
    syncs.change_hub_source(actor=actor, source=source, every=3600)
    hubs.sweep()
    assert HubSync.objects.latest("pk").state == "current"
    assert "A sync by hand tries it again." in HubSync.objects.latest("pk").reason


def test_a_schedule_syncs_when_it_is_due_and_only_then(hubs, actor, source) -> None:
    syncs.change_hub_source(actor=actor, source=source, every=3600)
    hubs.sweep()
    assert [sync.state for sync in HubSync.objects.all()] == ["done"]
    hubs.library.clock.pass_(timedelta(minutes=30))
    syncs.change_hub_source(actor=actor, source=source, every=3600)
    hubs.sweep()
    assert HubSync.objects.count() == 1
    hubs.library.clock.pass_(timedelta(hours=50))
    hubs.sweep()
    assert sorted(sync.state for sync in HubSync.objects.all()) == ["current", "done"]
    assert all(sync.is_scheduled for sync in HubSync.objects.all())
    syncs.change_hub_source(actor=actor, source=source, every=None)
    hubs.library.clock.pass_(timedelta(hours=50))
    hubs.sweep()
    assert HubSync.objects.count() == 2


def test_a_hub_that_dies_interrupts_and_the_schedule_goes_on_with_what_came(hubs, actor, source) -> None:
    server, weights = hubs.server, b.weights(50_000)
    server.repository(REPO).commit(b.model_files() | {"model.safetensors": weights})
    server.faults.cut_after = [150_000] + [0] * 50
    syncs.start_sync(actor=actor, source=source)
    hubs.sweep()
    sync = HubSync.objects.get()
    assert sync.state == "interrupted"
    assert "What has been fetched is kept." in sync.reason
    server.faults.cut_after = []
    server.sent.clear()
    syncs.change_hub_source(actor=actor, source=source, every=3600)
    hubs.sweep(6)
    assert HubSync.objects.get().state == "done"
    assert server.sent["model.safetensors"] == len(weights) - 150_000


def test_a_process_that_has_not_stopped_yet_gives_a_paused_import_no_speed(model) -> None:
    row = Version(model=model, is_paused=True, source={"kind": "hub"}, reason="")
    seen = JobObservation(JobState.RUNNING, progress={"bytes_done": 7, "bytes_per_second": 500})
    saved = PauseImport(FakeRunner()).settle(row, seen, datetime(2026, 11, 21, tzinfo=UTC)).save
    assert (saved["bytes_done"], saved["bytes_per_second"]) == (7, 0)


@pytest.mark.every_database
def test_a_paused_sync_keeps_what_came_and_a_cancelled_one_does_not(hubs, library, actor, source) -> None:
    sync = syncs.start_sync(actor=actor, source=source)
    hubs.worker(start=lambda job: None).sweep()
    sync = syncs.SYNCS.ask(
        "pause", actor=actor, transfer=HubSync.objects.get(pk=sync.pk), reason="the line is needed"
    )
    assert (sync.state, sync.reason) == ("paused", "By ada. the line is needed")
    hubs.sweep()
    assert HubSync.objects.get().state == "paused"
    assert hubs.server.sent.total() == 0
    with pytest.raises(SourceTaken):
        syncs.start_sync(actor=actor, source=source)
    with pytest.raises(InUse):
        syncs.delete_hub_source(actor=actor, source=source)
    sync = syncs.SYNCS.ask("resume", actor=actor, transfer=sync)
    hubs.sweep()
    assert HubSync.objects.get().state == "done"
    hubs.server.repository(REPO).commit(b.model_files(b"\x02"))
    second = syncs.start_sync(actor=actor, source=source)
    hubs.worker(start=lambda job: None).sweep()
    second = syncs.SYNCS.ask("cancel", actor=actor, transfer=HubSync.objects.get(pk=second.pk), reason="")
    hubs.settle()
    assert (second.state, Version.objects.get(name="v2").state) == ("cancelled", "failed")
    assert library.store.staging_keys() == []
    with pytest.raises(WrongState):
        syncs.SYNCS.ask("resume", actor=actor, transfer=second)


@pytest.mark.parametrize(
    "given",
    [
        {"repo_id": "../../etc"},
        {"repo_id": "a/b/c"},
        {"repo_id": "acme/tiny?x=1"},
        {"repo_id": REPO, "revision": "../main"},
        {"repo_id": REPO, "revision": "ma in"},
        {"repo_id": REPO, "endpoint": "http://169.254.169.254"},
        {"repo_id": REPO, "endpoint": "file:///etc"},
        {"repo_id": REPO, "token": "hf_x\r\nHost: evil"},
        {"repo_id": REPO, "token": "x" * 501},
        {"repo_id": REPO, "every": 1},
        {"repo_id": REPO, "allow_patterns": ["*"] * 51},
    ],
)
def test_sources_that_make_no_sense_are_refused(hubs, actor, model, given) -> None:
    with pytest.raises(Invalid):
        syncs.create_hub_source(actor=actor, model=model, **given)
    assert not HubSource.objects.exists()


def test_an_endpoint_that_is_allowed_no_longer_is_asked_no_longer(hubs, actor, source, settings) -> None:
    settings.SLIPWAY_HUB_ENDPOINTS = ("https://hub.example.org",)
    with pytest.raises(SourceNotAllowed, match="SLIPWAY_HUB_ENDPOINTS"):
        syncs.start_sync(actor=actor, source=source)


def test_only_those_who_may_write_models_may_sync(hubs, actor, source, model) -> None:
    viewer = of_user(cast.person("vera", vision="viewer"))
    for wish in (
        lambda: syncs.create_hub_source(actor=viewer, model=model, repo_id="acme/other"),
        lambda: syncs.start_sync(actor=viewer, source=source),
        lambda: syncs.change_hub_source(actor=viewer, source=source, every=None),
        lambda: syncs.delete_hub_source(actor=viewer, source=source),
    ):
        with pytest.raises(NotAllowed):
            wish()


def test_a_new_version_is_released_once_where_its_source_says_so(hubs, actor, source, chat) -> None:
    assert hubs.synced(source, actor).reason == "tiny:v1 is ready."
    syncs.change_hub_source(actor=actor, source=source, release_to="chat", release_plan="canary")
    assert hubs.synced(source, actor).state == "current"
    assert chat.released == []
    hubs.server.repository(REPO).commit(b.model_files(b"\x02"))
    assert hubs.synced(source, actor).reason == "tiny:v2 is ready. It goes on by release 1 of chat."
    assert hubs.synced(source, actor).state == "current"
    assert chat.released == [("ada", "tiny:v2", "canary")]
    chat.is_busy = True
    hubs.server.repository(REPO).commit(b.model_files(b"\x03"))
    sync = hubs.synced(source, actor)
    assert sync.state == "done"
    assert sync.reason.endswith("It was not released to chat: chat has a release in motion already.")


@pytest.mark.slow
def test_a_sync_survives_a_crash_at_any_point(hubs, library, actor, model, source) -> None:
    point = 0
    while True:
        point += 1
        hubs.server.repository(REPO).commit(b.model_files(bytes([point])))
        sync = syncs.start_sync(actor=actor, source=source)
        try:
            checkpoints = Checkpoints(at=point, then=die)
            for _ in range(3):
                hubs.worker(checkpoints).sweep()
                library.clock.pass_(timedelta(seconds=2))
        except Crash:
            library.clock.pass_(LEASE_AND_A_BIT * 8)
        hubs.settle()
        sync = HubSync.objects.get(pk=sync.pk)
        assert sync.state == "done", sync.reason
        assert sync.version.number == Version.objects.count() == point
        assert library.store.staging_keys() == []
        assert all(version.stuck_at is None for version in Version.objects.all())
        if checkpoints.passed < point:
            break
    assert point > 20
    needed = {file.sha256 for version in Version.objects.all() for file in files.manifest_of(version).files}
    assert library.stored() == needed
