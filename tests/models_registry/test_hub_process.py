"""The fetching process itself: killed and continued, with a secret that nobody else sees."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress

import psutil
import pytest

from models_registry.hub.source import RepositorySource
from models_registry.processes import apart
from models_registry.processes.job import RESULT, STARTED, Job
from models_registry.store import LocalStore
from tests.models_registry import builders as b
from tests.models_registry.hub_server import HubServer, hub_server
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


def job(hub: HubServer, store: LocalStore) -> Job:
    guardian = psutil.Process()
    return Job(
        store=str(store.root),
        key="7",
        attempt=1,
        source=RepositorySource(
            hub.url, REPO, "main", trusted_hosts=(hub.url.removeprefix("http://"),), patience_seconds=5
        ),
        guardian_pid=guardian.pid,
        guardian_started=guardian.create_time(),
        secret="hf_secret",
    )


def result(store: LocalStore) -> dict:
    note = store.read_note("7", RESULT)
    return json.loads(note) if note else {}


def fetching(store: LocalStore) -> int:
    note = store.read_note("7", STARTED)
    return json.loads(note)["pid"] if note and store.is_busy("7") else 0


def part_bytes(store: LocalStore) -> int:
    """Of the largest part; one may get its final name between two looks."""
    largest = 0
    for part in store.root.glob("incoming/7/.fetch-*"):
        with suppress(FileNotFoundError):
            largest = max(largest, part.stat().st_size)
    return largest


@pytest.mark.timeout(120)
def test_killed_again_and_again_it_fetches_only_what_is_left(hub, store, tmp_path) -> None:
    hub.faults.bytes_per_second = 12 * 1024 * 1024
    log = tmp_path / "last-words.log"
    for megabytes in (4, 9, 15):
        apart.launch(job(hub, store), log=log)
        eventually(lambda least=megabytes: part_bytes(store) > least * 1024 * 1024)
        assert "hf_secret" not in " ".join(psutil.Process(fetching(store)).cmdline())
        assert "hf_secret" not in " ".join(psutil.Process(fetching(store)).environ().values())
        os.kill(fetching(store), signal.SIGKILL)
        eventually(lambda: not store.is_busy("7"))
        assert result(store) == {}
        assert list(store.root.glob("blobs/sha256/*/*")) == []
    apart.launch(job(hub, store), log=log)
    eventually(lambda: result(store), seconds=60)
    found = result(store)
    assert found["outcome"] == "accepted", found["reason"]
    size = MEGABYTES * 1024 * 1024
    assert hub.sent["model.safetensors"] < size * 1.25, "more than was in flight at three kills came twice"
    assert log.read_text() == ""
    assert not list(store.root.glob("incoming/7/.fetch-*"))


def test_it_needs_neither_django_nor_a_database(hub, store) -> None:
    check = (
        "import sys, models_registry.processes.hub_download as f; f.main([sys.argv[1]]); "
        "sys.exit('django' in sys.modules and 9)"
    )
    done = subprocess.run(
        [sys.executable, "-c", check, job(hub, store).as_json()],
        env={"PATH": os.environ["PATH"]},
        input="hf_secret",
        text=True,
        check=False,
    )
    assert done.returncode == 0
    assert result(store)["outcome"] == "accepted"
    assert result(store)["commit"] == hub.repository(REPO).branches["main"]
