"""The process that checks the store, killed: the next one goes on where it was, and finds the same."""

import os
from pathlib import Path

import pytest

from model_store.backends.local import LocalStore
from model_store.processes.job import StagingJob, WholeStore
from tests.patience import eventually

pytestmark = [pytest.mark.stack, pytest.mark.timeout(120)]

KEY, BLOBS, SIZE = "check-1", 64, 128 * 1024


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    """Blobs in many of its parts, none of which holds what its name says."""
    store = LocalStore(tmp_path / "store")
    store.staging_keys()
    for number in range(BLOBS):
        path = store.blob_path(f"{number * 4:02x}" + "0" * 62)
        path.parent.mkdir(parents=True)
        path.write_bytes(os.urandom(SIZE))
    return store


def test_a_killed_check_goes_on_and_finds_what_a_whole_one_finds(store, jobs) -> None:
    job = StagingJob(str(store.root), KEY, WholeStore(bytes_per_second=2 * 1024 * 1024))
    places = [0]
    for _ in range(2):
        jobs.start(job)
        eventually(lambda: (jobs.seen().progress or {}).get("place", 0) > places[-1])
        places.append(jobs.kill().progress["place"])
        assert not store.is_busy(KEY)
    found = jobs.ends_well(job)
    assert (found["blobs_done"], found["bytes_done"]) == (BLOBS, BLOBS * SIZE)
    assert [damage["sha256"][:2] for damage in found["damages"]] == [f"{n * 4:02x}" for n in range(BLOBS)]
