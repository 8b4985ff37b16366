"""Engines of the contract: each a real worker that lives as long as the tests of its module."""

import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.serving.tiny_model import write_tiny_model
from tests.serving.workers import RunningWorker, running

# How long an example takes says nothing where others use the machine, too.
settings.register_profile("any-machine", deadline=None)
settings.load_profile("any-machine")


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("models") / "tiny", context=512)


@pytest.fixture(scope="session")
def path_with_vllm(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A PATH on which `vllm` is the stand-in."""
    directory = tmp_path_factory.mktemp("bin")
    program = directory / "vllm"
    script = Path(__file__).with_name("fake_vllm.py")
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(str(script))} "$@"\n')
    program.chmod(0o755)
    return f"{directory}{os.pathsep}{os.environ['PATH']}"


@pytest.fixture(scope="module", params=["echo", "transformers", "vllm"])
def served(
    request: pytest.FixtureRequest,
    tiny_model: Path,
    path_with_vllm: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[RunningWorker]:
    """One ready worker of each engine, with 2 slots and a queue of 1."""
    pace = {"echo": {"token_seconds": 0.005, "tokens": 400}}
    log = tmp_path_factory.mktemp("worker") / "log"
    with running(
        log,
        {"PATH": path_with_vllm},
        engine=request.param,
        model_dir=tiny_model,
        settings=pace.get(request.param, {}),
        slots=2,
        queue_limit=1,
    ) as worker:
        yield worker.until_ready()
