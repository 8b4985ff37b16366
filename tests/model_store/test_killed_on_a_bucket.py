"""Processes at work on a bucket, killed when a request has come, or when it is done and not yet answered."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.jobs.notes import DIRECTORY, RESULT, JobNotes
from model_store.file_manifest import FileManifest
from model_store.processes.job import StagingJob
from models_registry.importing.directory import DirectorySource
from models_registry.importing.directory_import import import_job
from models_registry.importing.results import ImportResult
from tests.contracts.store_rigs import BucketRig, everything, published
from tests.model_store.test_bucket_crashes import nothing_is_half_visible, survivor
from tests.models_registry import builders as b

pytestmark = [pytest.mark.stack, pytest.mark.slow, pytest.mark.timeout(1800)]
KEPT = b"kept"


@pytest.fixture
def rig(s3, tmp_path: Path) -> BucketRig:
    return BucketRig(s3, tmp_path / "node")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A model of which the store has one file already."""
    directory = b.model_directory(tmp_path / "roots/model")
    b.write(directory, {"kept.txt": KEPT, "large.safetensors": b.weights(200_000)})
    return directory.parent


def job(rig: BucketRig, root: Path) -> StagingJob:
    return StagingJob(rig.store.address, "7", DirectorySource(str(root), "model"))


@pytest.fixture
def notes(tmp_path: Path, monkeypatch) -> JobNotes:
    """Return the directory of notes of this test's processes."""
    directory = tmp_path / "job"
    directory.mkdir()
    monkeypatch.setenv(DIRECTORY, str(directory))
    return JobNotes(directory)


def accepted(notes: JobNotes) -> FileManifest:
    return ImportResult.from_json(notes.read(RESULT) or {}).manifest


def lives(rig: BucketRig, *command: str, moments: int) -> bool:
    """Whether the process comes to its end before so many moments have passed at the server."""
    passed = 0

    def pass_one() -> None:
        nonlocal passed
        passed += 1
        if passed == moments:
            process.kill()

    rig.server.pass_moment = pass_one
    try:
        with subprocess.Popen([sys.executable, "-m", *command], stderr=subprocess.PIPE) as process:
            told = process.communicate()[1]
    finally:
        rig.server.pass_moment = lambda: None
    assert process.returncode in (0, -signal.SIGKILL), told
    return process.returncode == 0


def deaths(rig: BucketRig, *command: str, every: int) -> Iterator[int]:
    """Run it, killed after each moment (or each so many) in turn, until it lives to its end."""
    moments = 1
    while not lives(rig, *command, moments=moments):
        yield moments
        moments += every


@pytest.mark.parametrize("every", [1, 79])
def test_an_import_killed_at_any_request_shows_nothing_and_the_next_goes_on(
    rig, tmp_path, root, notes, every: int
) -> None:
    kept = published(rig.store, tmp_path, {"kept.txt": KEPT}, key="6")
    visible = list(rig.store.walk())
    died = 0
    for _ in deaths(rig, "models_registry.importing.directory_import", job(rig, root).as_json(), every=every):
        died += 1
        assert list(rig.store.walk()) == visible
        # The lease of the dead runs out, and the next process comes.
        with survivor(rig).staging("7"):
            pass
    # Each goes on where the one before died, so fewer die than one of them asks requests.
    assert died > 30 / every
    found = accepted(notes)
    assert found.size_bytes == sum(path.stat().st_size for path in (root / "model").iterdir())
    rig.store.publish("7", found)
    rig.store.discard("7", is_referenced=everything)
    rig.store.check(found)
    rig.store.check(kept)
    nothing_is_half_visible(rig.store)
    assert rig.stored() == {file.sha256 for file in found.files}


@pytest.mark.parametrize("every", [1, 97])
def test_publishing_and_reclaiming_killed_at_any_request_lose_no_blob_and_leak_none(
    rig, tmp_path, root, notes, every: int
) -> None:
    kept = published(rig.store, tmp_path, {"kept.txt": KEPT}, key="6")
    needed = {file.sha256 for file in kept.files}
    found = imported(rig, root, notes)
    publisher, result = "tests.model_store.doomed_publisher", str(notes.directory / "result.json")
    command = (publisher, rig.store.address, "7", json.dumps(sorted(needed)), result)
    died = 0
    for moments in deaths(rig, *command, every=every):
        died += 1
        after = survivor(rig)
        nothing_is_half_visible(after)
        after.check(kept)
        if moments // every % 2 and "7" in after.staging_keys():
            after.publish("7", found)
            after.check(found)
        after.discard("7", is_referenced=needed.intersection)
        after.reclaim([file.sha256 for file in found.files], is_referenced=needed.intersection)
        after.check(kept)
        assert rig.stored() == needed
        assert imported(rig, root, notes) == found
    assert died > 100 / every
    assert rig.stored() == needed


def imported(rig: BucketRig, root: Path, notes: JobNotes) -> FileManifest:
    """Return the contents of the staging area after a completed import."""
    with rig.store.staging("7") as staging:
        done = import_job(job(rig, root), staging, lambda progress: None)
    notes.write(RESULT, done.as_json())
    return accepted(notes)
