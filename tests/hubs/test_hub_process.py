"""The fetching process itself: killed and continued, with a secret that nobody else sees."""

from collections.abc import Iterator
from contextlib import suppress

import pytest

from hubs.source import RepositorySource
from model_store.backends.local import LocalStore
from model_store.processes.job import StagingJob
from tests.hubs.hub_server import HubServer, hub_server
from tests.models_registry import builders as b
from tests.patience import eventually

pytestmark = pytest.mark.stack

REPO = "acme/tiny"
MEGABYTES = 24


@pytest.fixture
def hub() -> Iterator[HubServer]:
    with hub_server() as server:
        large = {"model.safetensors": b.weights(MEGABYTES * 1024 * 1024 // 4)}
        server.repository(REPO).commit(b.model_files() | large)
        server.tokens[REPO] = {"hf_secret"}
        yield server


def job(hub: HubServer, store: LocalStore) -> StagingJob:
    source = RepositorySource(
        hub.url, REPO, "main", trusted_hosts=(hub.url.removeprefix("http://"),), patience_seconds=5
    )
    return StagingJob(str(store.root), "7", source, secret="hf_secret")


def part_bytes(store: LocalStore) -> int:
    """Return the size of the largest part; a part may get its final name between two looks."""
    largest = 0
    for part in store.root.glob("incoming/7/.fetch-*"):
        with suppress(FileNotFoundError):
            largest = max(largest, part.stat().st_size)
    return largest


@pytest.mark.timeout(120)
def test_killed_again_and_again_it_fetches_only_what_is_left(hub, store, jobs) -> None:
    hub.faults.bytes_per_second = 12 * 1024 * 1024
    for megabytes in (4, 9, 15):
        jobs.start(job(hub, store))
        eventually(lambda least=megabytes: part_bytes(store) > least * 1024 * 1024)
        program = jobs.program()
        assert "hf_secret" not in " ".join([*program.cmdline(), *program.environ().values()])
        assert jobs.kill().result is None
        assert not store.is_busy("7")
        assert list(store.root.glob("blobs/sha256/*/*")) == []
    found = jobs.ends_well(job(hub, store))
    assert found["outcome"] == "accepted", found["reason"]
    assert found["commit"] == hub.repository(REPO).branches["main"]
    size = MEGABYTES * 1024 * 1024
    assert hub.sent["model.safetensors"] < size * 1.25, "more than was in flight at three kills came twice"
    assert not list(store.root.glob("incoming/7/.fetch-*"))
    written = [path.read_bytes() for path in jobs.root.rglob("*") if path.is_file()]
    assert not [content for content in written if b"hf_secret" in content]
