"""What goes from a machine that is full, and what stays."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from model_store.backends import locks
from serving.worker import _hold
from tests.serving.fetch_rig import Rig, rig
from tests.serving.files_server import Files

__all__ = ["rig"]
pytestmark = [pytest.mark.any_database]


def other_version(rig: Rig, number: int) -> Files:
    """A version of 100,000 bytes that shares nothing with others, served from now on."""
    files = Files({"w": bytes([number]) * 100_000})
    rig.files.files = files.files
    rig.files.by_sha256 = files.by_sha256
    return files


def make_old(rig: Rig, files: Files) -> None:
    os.utime(rig.cache / "versions" / files.manifest.digest, (1, 1))


def versions(rig: Rig) -> set[str]:
    return {path.name for path in (rig.cache / "versions").iterdir()}


def test_beyond_its_limit_the_cache_gives_up_what_was_used_longest_ago_and_nobody_has(rig: Rig) -> None:
    gib = 250_000 / 1024**3
    old, held, recent = [other_version(rig, number) for number in range(3)]
    for files in (old, held, recent):
        other_version(rig, int(files.files["w"][0]))
        assert rig.run(digest=files.manifest.digest) == 0
    make_old(rig, old)
    make_old(rig, held)
    descriptor = os.open(rig.cache / "versions" / held.manifest.digest, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    try:
        new = other_version(rig, 9)
        assert rig.run(digest=new.manifest.digest, most_gib=gib) == 0
        assert versions(rig) == {one.manifest.digest for one in (held, recent, new)}
        # What was seen held is not given up the moment that its worker is started anew.
        os.close(descriptor)
        descriptor = -1
        newer = other_version(rig, 10)
        assert rig.run(digest=newer.manifest.digest, most_gib=gib) == 0
        assert held.manifest.digest in versions(rig)
    finally:
        if descriptor >= 0:
            os.close(descriptor)
    make_old(rig, held)
    newest = other_version(rig, 11)
    assert rig.run(digest=newest.manifest.digest, most_gib=gib) == 0
    assert held.manifest.digest not in versions(rig)


def test_a_worker_holds_the_files_that_it_serves(tmp_path: Path) -> None:
    assert not locks.is_held(tmp_path)
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, pathlib, time; from serving.worker import _hold;"
            "_hold(pathlib.Path(sys.argv[1])); print('held', flush=True); time.sleep(600)",
            str(tmp_path),
        ],
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        assert locks.is_held(tmp_path)
        _hold(tmp_path / "missing")
    finally:
        process.kill()
        process.communicate()
    assert not locks.is_held(tmp_path)
