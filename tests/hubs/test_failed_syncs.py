"""What a sync has fetched and verified is not fetched again, however the sync ended."""

import socket
from datetime import timedelta

import pytest

from hubs.models import HubSync
from hubs.services import syncs
from models_registry.models import Version
from models_registry.services import imports
from tests.models_registry import builders as b
from tests.models_registry.conftest import REPO

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]

PARTS = 8
PART_BYTES = len(b.weights(50_000))


def shards(fill: int = 1) -> dict[str, bytes]:
    """Weights in several files, each with a content of its own."""
    weights = {f"model-{n}.safetensors": b.weights(50_000, bytes([fill + n])) for n in range(PARTS)}
    return {**b.model_files(), **weights}


def size_of(content: dict[str, bytes]) -> int:
    return sum(map(len, content.values()))


@pytest.fixture
def server(hubs):
    hubs.server.repository(REPO).commit(shards())
    return hubs.server


def test_one_damaged_file_costs_that_file_again_and_no_other(hubs, server, actor, source) -> None:
    server.faults.turned = "model-3.safetensors"
    sync = hubs.synced(source, actor)
    assert (sync.state, sync.cause) == ("failed", "misbehaves")
    assert "model-3.safetensors does not have the content" in sync.reason
    assert hubs.library.store.staging_keys() == []
    server.faults.turned = ""
    syncs.SYNCS.ask("retry", actor=actor, transfer=sync)
    hubs.settle()
    assert HubSync.objects.get().state == "done"
    # The damaged one came twice before it was given up.
    assert server.sent.total() <= size_of(shards()) + 2 * PART_BYTES


def test_a_new_commit_finds_what_a_failed_sync_has_verified(hubs, server, actor, source) -> None:
    server.faults.turned = "model-7.safetensors"
    assert hubs.synced(source, actor).state == "failed"
    server.faults.turned = ""
    server.repository(REPO).commit(shards() | {"model-7.safetensors": b.weights(50_000, b"\xee")})
    server.sent.clear()
    assert hubs.synced(source, actor).state == "done"
    assert server.sent["model-7.safetensors"] == PART_BYTES
    assert server.sent.total() <= PART_BYTES + 4 * PART_BYTES


def test_what_a_failed_sync_has_left_goes_when_its_time_is_over(hubs, library, server, actor, source) -> None:
    server.faults.turned = "model-3.safetensors"
    hubs.synced(source, actor)
    day = int(timedelta(days=1).total_seconds())
    assert library.collect(grace_seconds=day).deleted_bytes == 0
    assert library.stored()
    library.clock.pass_(timedelta(hours=25))
    assert library.collect(grace_seconds=day).deleted_bytes > 0
    assert library.stored() == set()


def test_a_cancelled_sync_leaves_nothing(hubs, library, server, actor, source) -> None:
    server.faults.cut_after = [PART_BYTES // 2] * 4 + [0] * 90
    syncs.start_sync(actor=actor, source=source)
    hubs.sweep()
    syncs.SYNCS.ask("cancel", actor=actor, transfer=HubSync.objects.get())
    hubs.settle()
    assert library.stored() == set()


def test_a_token_that_is_refused_interrupts_and_a_new_one_goes_on(hubs, server, actor, source) -> None:
    server.tokens |= {REPO: {"hf_old"}, "acme/other": {"hf_old"}}
    syncs.change_hub_source(actor=actor, source=source, token="hf_old")
    server.faults.revokes_after = int(0.6 * size_of(shards()))
    syncs.start_sync(actor=actor, source=source)
    hubs.sweep()
    sync = HubSync.objects.get()
    assert (sync.state, sync.cause) == ("interrupted", "no_repository")
    server.faults.revokes_after = None
    # Somebody resumes it before there is another token: nothing is lost by that.
    del server.tokens["acme/other"]
    syncs.SYNCS.ask("resume", actor=actor, transfer=sync)
    hubs.sweep()
    sync.refresh_from_db()
    assert (sync.state, sync.cause) == ("interrupted", "bad_token")
    assert "does not accept the token" in sync.reason
    assert "A sync goes on once its source has a token" in sync.reason
    server.tokens[REPO] = {"hf_new"}
    syncs.change_hub_source(actor=actor, source=source, token="hf_new")
    hubs.settle()
    sync.refresh_from_db()
    assert (sync.state, sync.cause, sync.reason) == ("done", "", "tiny:v1 is ready.")
    assert server.sent.total() == size_of(shards())
    assert Version.objects.get().scan["verdict"] == "passed"


@pytest.fixture
def unknown_name(monkeypatch):
    """A resolver that knows no name."""

    def resolve(host, *_args, **_options):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr("common.outbound.names.socket.getaddrinfo", resolve)


def test_a_name_that_does_not_resolve_fails_within_seconds(hubs, actor, source, unknown_name) -> None:
    sync = syncs.start_sync(actor=actor, source=source)
    HubSync.objects.update(began_at=hubs.library.clock())
    for _ in range(10):
        hubs.worker().sweep()
        hubs.library.clock.pass_(timedelta(seconds=2))
    sync.refresh_from_db()
    assert (sync.state, sync.cause) == ("failed", "unreachable")
    assert sync.reason == (
        "The name 127.0.0.1 cannot be resolved: Name or service not known. "
        "Check the address, and the DNS of this server."
    )


def test_an_import_of_a_name_that_does_not_resolve_fails(hubs, actor, model, unknown_name) -> None:
    imports.import_version(actor=actor, model=model, source=f"hf://{REPO}")
    hubs.settle()
    version = Version.objects.get()
    assert (version.state, version.scan["cause"]) == ("failed", "unreachable")


def test_a_name_that_fails_to_resolve_for_a_moment_is_asked_again(hubs, server, actor, source, monkeypatch):
    known, failures = socket.getaddrinfo, [socket.gaierror(socket.EAI_AGAIN, "Temporary failure")] * 2

    def resolve(*args, **options):
        if server.sent.total() and failures:
            raise failures.pop()
        return known(*args, **options)

    monkeypatch.setattr("common.outbound.names.socket.getaddrinfo", resolve)
    assert hubs.synced(source, actor).state == "done"
    assert not failures
