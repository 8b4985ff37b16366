"""The importing process itself: killed at any moment, told to stop, started twice."""

import json
import random
import struct
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from common.jobs.run import EXIT_BUSY, EXIT_STOPPED
from common.jobs.spec import Ending
from model_store.backends.local import LocalStore
from model_store.processes.job import StagingJob
from models_registry.importing.directory import DirectorySource
from tests.models_registry import builders as b
from tests.patience import eventually

pytestmark = pytest.mark.stack


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return b.model_directory(tmp_path / "roots/model").parent


def job(root: Path, store: LocalStore) -> StagingJob:
    return StagingJob(str(store.root), "7", DirectorySource(str(root), "model"))


def written(store: LocalStore) -> int:
    """Bytes that lie in the staging area; a file may vanish or get its final name between two looks."""
    found = 0
    for path in store.root.glob("incoming/7/*"):
        with suppress(FileNotFoundError):
            found += path.stat().st_size
    return found


def big(root: Path, megabytes: int) -> None:
    """Two files whose weights are holes: as long to read and to copy, and nothing to write."""
    for number in (1, 2):
        elements = megabytes * 1024 * 1024 // 8 + number
        described = {"dtype": "F32", "shape": [elements], "data_offsets": [0, 4 * elements]}
        head = json.dumps({"__metadata__": {"format": "pt"}, "w": described}).encode()
        with (root / f"model/model-{number}.safetensors").open("wb") as file:
            file.write(struct.pack("<Q", len(head)) + head)
            file.truncate(8 + len(head) + 4 * elements)


def test_a_second_one_on_the_same_intake_ends_without_touching_it(root, store, jobs) -> None:
    with store.staging("7"):
        jobs.start(job(root, store))
        seen = jobs.ended()
        assert (seen.exit_code, seen.result) == (EXIT_BUSY, None)


def test_it_ends_at_once_when_it_is_asked_to_stop(root, store, jobs) -> None:
    big(root, 400)
    jobs.start(job(root, store))
    eventually(lambda: jobs.seen().progress)
    jobs.runner.stop(jobs.specs[-1].name)
    assert (jobs.ended().ending, jobs.seen().result) == (Ending.STOPPED, None)
    assert not store.is_busy("7")


def test_it_ends_when_another_machine_asks_for_that_through_the_store(root, store, jobs) -> None:
    big(root, 1_600)  # seconds of work, on a quick disk too
    jobs.start(job(root, store))
    eventually(lambda: jobs.seen().progress)
    store.ask_to_stop("7")
    assert (jobs.ended().exit_code, jobs.seen().result) == (EXIT_STOPPED, None)
    assert not store.is_busy("7")


@pytest.mark.timeout(300)
def test_killed_at_any_moment_it_leaves_nothing_visible_and_the_next_one_finishes(root, store, jobs) -> None:
    big(root, 48)
    expected = jobs.imports(job(root, store)).manifest
    store.discard("7", is_referenced=lambda blobs: set())
    moments = sorted(random.Random(20).sample(range(100), 12))
    killed_midway = 0
    for moment in moments:
        jobs.start(job(root, store))
        size = expected.size_bytes * moment // 100
        eventually(lambda size=size: written(store) >= size or not jobs.seen().is_live, every=0.001)
        with suppress(psutil.NoSuchProcess):
            jobs.program().kill()
        killed_midway += jobs.ended().result is None
        assert list(store.root.glob("blobs/sha256/*/*")) == []
        assert not store.is_busy("7")
        for held in store.root.glob("incoming/7/[0-9a-f]*"):
            assert held.stat().st_mode & 0o777 == 0o444, "a file lies under its hash before it was whole"
    assert killed_midway >= 5, "the kills came too late to prove anything"
    assert jobs.imports(job(root, store)).manifest == expected
    store.publish("7", expected)
    store.discard("7", is_referenced=set)
    left = {path.name for path in store.root.rglob("*") if path.is_file() and path.parent.name != "locks"}
    assert left == {file.sha256 for file in expected.files}


@pytest.mark.timeout(300)
def test_publishing_and_materialising_killed_at_any_moment_can_be_done_again(tmp_path, jobs) -> None:
    store = LocalStore(tmp_path / "store")
    b.write(tmp_path / "roots/model", {f"part/{number:03}.txt": b"%d" % number for number in range(400)})
    found = jobs.imports(job(tmp_path / "roots", store))
    manifest = found.manifest
    (tmp_path / "result").write_text(json.dumps(found.as_json()))
    work = (
        "import json, sys; from pathlib import Path; from model_store.backends.local import LocalStore; "
        "from models_registry.importing.directory import ImportResult; "
        "store = LocalStore(Path(sys.argv[1])); "
        "found = json.loads(Path(sys.argv[2]).read_text()); "
        "manifest = ImportResult.from_json(found).manifest; print('ready', flush=True); "
        "store.publish('7', manifest); store.materialise(manifest); print('done', flush=True)"
    )
    finished = 0
    for delay_ms in (0, 5, 10, 20, 30, 45, 60, 80):
        command = [sys.executable, "-c", work, str(store.root), str(tmp_path / "result")]
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
