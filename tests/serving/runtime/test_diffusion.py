"""A pipeline of diffusers as a model, in the environment that is made for it."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from serving.engines.programs import environment_named
from tests.serving.workers import PROJECT

pytestmark = [pytest.mark.stack, pytest.mark.slow, pytest.mark.timeout(900)]


def test_a_picture_is_the_same_alone_in_a_batch_with_progress_and_by_two_processes(
    tmp_path: Path, environments: Path
) -> None:
    python = environment_named("diffusion").ensure(environments) / "bin" / "python"
    done = subprocess.run(
        [str(python), "-m", "tests.serving.runtime.tiny_diffusion", str(tmp_path / "pipeline")],
        cwd=PROJECT,
        env=os.environ | {"HF_HUB_OFFLINE": "1", "PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["shape"] == [32, 32, 3]
    assert seen["contrast"] > 20
    assert seen["cat and dog"] > 20
    # Of 255 levels: other sizes of a batch round otherwise.
    for way in ("together", "by two processes", "again by two", "after progress"):
        assert seen[way] <= 2, way
    assert seen["rows of two pictures here"] == [2]  # the other two are the partner's
    assert seen["progress"] == list(range(1, 9))
    assert seen["refused"] == [422, 422]
    assert seen["attention"] == [seen["sdpa"]]
