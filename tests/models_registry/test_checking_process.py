"""The process that checks the store, killed: the next one goes on where it was, and finds the same."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from models_registry.processes import apart
from models_registry.processes.job import PROGRESS, RESULT, STARTED, Job, WholeStore
from models_registry.store import LocalStore
from tests.patience import eventually

pytestmark = [pytest.mark.stack, pytest.mark.timeout(120)]

KEY, BLOBS, SIZE = "check-1", 64, 128 * 1024


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    """Blobs in many of its parts, none of which holds what its name says."""
    store = LocalStore(tmp_path / "store")
    store.intakes()
    for number in range(BLOBS):
        path = store.blob_path(f"{number * 4:02x}" + "0" * 62)
        path.parent.mkdir(parents=True)
        path.write_bytes(os.urandom(SIZE))
    return store


def note(store: LocalStore, name: str) -> dict[str, Any]:
    found = store.read_note(KEY, name)
    return json.loads(found) if found else {}


def test_a_killed_check_goes_on_and_finds_what_a_whole_one_finds(store, tmp_path) -> None:
    guardian = psutil.Process()
    job = Job(
        store=str(store.root),
        key=KEY,
        attempt=1,
        source=WholeStore(bytes_per_second=2 * 1024 * 1024),
        guardian_pid=guardian.pid,
        guardian_started=guardian.create_time(),
    )
    log = tmp_path / "last-words.log"
    places = [0]
    for _ in range(2):
        apart.launch(job, log=log)
        eventually(lambda: note(store, PROGRESS).get("place", 0) > places[-1] and store.is_busy(KEY))
        places.append(note(store, PROGRESS)["place"])
        os.kill(note(store, STARTED)["pid"], signal.SIGKILL)
        eventually(lambda: not store.is_busy(KEY))
        assert note(store, RESULT) == {}
    apart.launch(job, log=log)
    eventually(lambda: note(store, RESULT), seconds=60)
    found = note(store, RESULT)
    assert (found["blobs_done"], found["bytes_done"]) == (BLOBS, BLOBS * SIZE)
    assert [damage["sha256"][:2] for damage in found["damages"]] == [f"{n * 4:02x}" for n in range(BLOBS)]
    assert log.read_text() == ""
