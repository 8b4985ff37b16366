"""The importing process itself: killed at any moment, told to stop, left by its stack, started twice."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from models_registry.importing.directory import DirectorySource
from models_registry.importing.results import ImportResult
from models_registry.processes import guardian as guardians
from models_registry.processes.job import RESULT, Job
from models_registry.processes.job_runner import EXIT_BUSY, EXIT_STOPPED
from models_registry.store import LocalStore
from tests.models_registry import builders as b
from tests.patience import eventually

pytestmark = pytest.mark.stack


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return b.model_directory(tmp_path / "roots/model").parent


def job(root: Path, store: LocalStore, *, attempt: int = 1, guardian: psutil.Process | None = None) -> Job:
    guardian = guardian or psutil.Process()
    return Job(
        store=str(store.root),
        key="7",
        attempt=attempt,
        source=DirectorySource(str(root), "model"),
        guardian_pid=guardian.pid,
        guardian_started=guardian.create_time(),
    )


def start(one: Job) -> subprocess.Popen:
    command = [sys.executable, "-m", "models_registry.processes.directory_import", one.as_json()]
    return subprocess.Popen(command, stderr=subprocess.PIPE)


def result(store: LocalStore) -> dict:
    note = store.read_note("7", RESULT)
    return json.loads(note) if note else {}


def accepted(store: LocalStore) -> ImportResult:
    found = result(store)
    found.pop("attempt")
    return ImportResult.from_json(found)


def wait_until_written(store: LocalStore, size_bytes: int, process: subprocess.Popen) -> None:
    eventually(lambda: written(store) >= size_bytes or process.poll() is not None, every=0.001)


def written(store: LocalStore) -> int:
    """Bytes that lie in the intake; a file may vanish or get its final name between two looks."""
    found = 0
    for path in store.root.glob("incoming/7/*"):
        with suppress(FileNotFoundError):
            found += path.stat().st_size
    return found


def big(root: Path, megabytes: int) -> None:
    for number in (1, 2):
        content = b.weights(megabytes * 1024 * 1024 // 8, bytes([number]))
        (root / f"model/model-{number}.safetensors").write_bytes(content)


def test_it_writes_its_result_into_the_intake_and_ends(root, store) -> None:
    with start(job(root, store, attempt=3)) as process:
        assert process.wait(60) == 0, process.stderr.read()
    assert result(store)["attempt"] == 3
    assert accepted(store).manifest.files


def test_it_needs_neither_django_nor_a_database(root, store) -> None:
    check = (
        "import sys, models_registry.processes.directory_import as i; i.main([sys.argv[1]]); "
        "sys.exit('django' in sys.modules and 9)"
    )
    environment = {"PATH": os.environ["PATH"]}
    done = subprocess.run(
        [sys.executable, "-c", check, job(root, store).as_json()], env=environment, check=False
    )
    assert done.returncode == 0
    assert result(store)["outcome"] == "accepted"


def test_a_second_one_on_the_same_intake_ends_without_touching_it(root, store) -> None:
    with store.intake("7"), start(job(root, store)) as second:
        assert second.wait(60) == EXIT_BUSY
    assert result(store) == {}


def test_it_ends_at_once_when_it_is_asked_to_stop(root, store) -> None:
    big(root, 400)
    with start(job(root, store)) as process:
        eventually(lambda: store.read_note("7", "progress"))
        store.ask_to_stop("7")
        assert process.wait(60) == EXIT_STOPPED
    assert result(store) == {}
    assert not store.is_busy("7")


def test_it_ends_when_the_process_that_stands_for_its_stack_ends(root, store) -> None:
    big(root, 400)
    with (
        subprocess.Popen(["sleep", "60"]) as stack,
        start(job(root, store, guardian=psutil.Process(stack.pid))) as process,
    ):
        eventually(lambda: store.read_note("7", "progress"))
        stack.kill()
        assert process.wait(60) == EXIT_STOPPED
    assert result(store) == {}


def test_a_guardian_whose_number_was_given_to_another_process_counts_as_gone(root, store) -> None:
    one = job(root, store)
    another = replace(one, guardian_started=one.guardian_started - 60)
    assert guardians.of(another) is None
    assert guardians.of(replace(one, guardian_pid=2**22 + 1)) is None
    assert guardians.is_alive(guardians.of(one))
    big(root, 200)
    with start(another) as process:
        assert process.wait(60) == EXIT_STOPPED
    assert result(store) == {}


def test_the_guardian_is_the_leader_of_the_process_group() -> None:
    assert guardians.present().pid in (os.getpgrp(), os.getpid())


@pytest.mark.timeout(300)
def test_killed_at_any_moment_it_leaves_nothing_visible_and_the_next_one_finishes(root, store) -> None:
    big(root, 48)
    with start(job(root, store)) as process:
        assert process.wait(60) == 0
    expected = accepted(store).manifest
    store.discard("7", is_referenced=lambda blobs: set())
    moments = sorted(random.Random(20).sample(range(100), 12))
    killed_midway = 0
    for moment in moments:
        with start(job(root, store)) as process:
            wait_until_written(store, expected.size_bytes * moment // 100, process)
            process.send_signal(signal.SIGKILL)
            process.wait(60)
        killed_midway += not result(store)
        assert list(store.root.glob("blobs/sha256/*/*")) == []
        assert not store.is_busy("7")
        for held in store.root.glob("incoming/7/[0-9a-f]*"):
            assert held.stat().st_mode & 0o777 == 0o444, "a file lies under its hash before it was whole"
    assert killed_midway >= 5, "the kills came too late to prove anything"
    with start(job(root, store)) as process:
        assert process.wait(60) == 0
    assert accepted(store).manifest == expected
    store.publish("7", expected)
    store.discard("7", is_referenced=set)
    left = {path.name for path in store.root.rglob("*") if path.is_file() and path.parent.name != "locks"}
    assert left == {file.sha256 for file in expected.files}


@pytest.mark.timeout(300)
def test_publishing_and_materialising_killed_at_any_moment_can_be_done_again(tmp_path) -> None:
    store = LocalStore(tmp_path / "store")
    b.write(tmp_path / "roots/model", {f"part/{number:03}.txt": b"%d" % number for number in range(400)})
    with start(job(tmp_path / "roots", store)) as process:
        assert process.wait(60) == 0
    manifest = accepted(store).manifest
    work = (
        "import json, sys; from pathlib import Path; from models_registry.store import LocalStore; "
        "from models_registry.importing.directory import ImportResult; "
        "store = LocalStore(Path(sys.argv[1])); "
        "found = json.loads(store.read_note('7', 'result')); found.pop('attempt'); "
        "manifest = ImportResult.from_json(found).manifest; print('ready', flush=True); "
        "store.publish('7', manifest); store.materialise(manifest); print('done', flush=True)"
    )
    finished = 0
    for delay_ms in (0, 5, 10, 20, 30, 45, 60, 80):
        command = [sys.executable, "-c", work, str(store.root)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout.readline() == "ready\n"
            time.sleep(delay_ms / 1000)
            process.kill()
            finished += "done" in process.stdout.read()
        target = store.root / "versions" / manifest.digest
        if target.exists():
            assert len(list(target.rglob("*.txt"))) == 400
    store.publish("7", manifest)
    store.check(manifest)
    assert len(list(store.materialise(manifest).rglob("*.txt"))) == 400
    assert [path.name for path in (store.root / "versions").iterdir()] == [manifest.digest]
