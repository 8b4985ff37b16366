"""vLLM beside our transformers engine, on the CPU: `python -m perf.engines --environments DIR [--requests
32]`.

Each is a worker with 8 slots that answers the same requests of mixed lengths at once, with a Llama of some 13
million random weights. Compared are tokens per second of the CPU time of the worker and all of its processes,
tokens per second of the wall clock, seconds until the worker is ready, and memory. `DIR`: where vLLM's
environment is, or is made.
"""

import argparse
import random
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from perf.batching import VOCABULARY, write_model
from tests.serving.workers import RunningWorker, running

SLOTS, CONTEXT = 8, 512


@dataclass(frozen=True, slots=True)
class EngineFigures:
    ready_seconds: float
    tokens: int
    cpu_seconds: float
    seconds: float
    memory_mb: float


def asked(count: int) -> list[dict[str, Any]]:
    chance = random.Random(3)
    return [
        {
            "prompt": " ".join(f"w{chance.randrange(VOCABULARY)}" for _ in range(chance.randrange(8, 120))),
            "max_tokens": chance.randrange(16, 120),
            "temperature": 0,
            "ignore_eos": True,
        }
        for _ in range(count)
    ]


def processes(worker: RunningWorker) -> list[psutil.Process]:
    root = psutil.Process(worker.process.pid)
    return [root, *root.children(recursive=True)]


def cpu_seconds(worker: RunningWorker) -> float:
    return sum(sum(one.cpu_times()[:2]) for one in processes(worker))


def answered(worker: RunningWorker, requests: list[dict[str, Any]]) -> int:
    """Tokens of all answers, asked for at once."""
    tokens: list[int] = []

    def ask(body: dict[str, Any]) -> None:
        tokens.append(worker.post("/v1/completions", **body).json()["usage"]["completion_tokens"])

    threads = [threading.Thread(target=ask, args=(body,)) for body in requests]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(tokens)


def measured(engine: str, model: Path, requests: list[dict[str, Any]], environments: Path) -> EngineFigures:
    settings: dict[str, Any] = {"threads": 1} if engine == "transformers" else {"max_model_len": CONTEXT}
    began = time.monotonic()
    with running(
        model / f"{engine}.log",
        {"VLLM_CPU_KVCACHE_SPACE": "1", "OMP_NUM_THREADS": "1"},
        engine=engine,
        model_dir=model,
        device="cpu",
        slots=SLOTS,
        queue_limit=len(requests),
        settings=settings | ({"enforce_eager": True} if engine == "vllm" else {}),
        environments=environments,
    ) as worker:
        worker.until_ready(900)
        ready = time.monotonic() - began
        answered(worker, requests[:2])  # what is compiled at the first request is not counted
        cpu, began = cpu_seconds(worker), time.monotonic()
        tokens = answered(worker, requests)
        return EngineFigures(
            ready_seconds=ready,
            tokens=tokens,
            cpu_seconds=cpu_seconds(worker) - cpu,
            seconds=time.monotonic() - began,
            memory_mb=sum(one.memory_info().rss for one in processes(worker)) / 1e6,
        )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m perf.engines", description=__doc__)
    parser.add_argument("--environments", type=Path, required=True)
    parser.add_argument("--requests", type=int, default=32)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        model = Path(directory)
        write_model(model, heads=6)
        print(f"{'engine':14}{'ready s':>9}{'tokens':>8}{'tokens/CPU s':>14}{'tokens/s':>10}{'MB':>8}")
        for engine in ("transformers", "vllm"):
            found = measured(engine, model, asked(options.requests), options.environments)
            rates = found.tokens / found.cpu_seconds, found.tokens / found.seconds
            shown = f"{found.ready_seconds:9.1f}{found.tokens:8d}{rates[0]:14.1f}{rates[1]:10.1f}"
            print(f"{engine:14}{shown}{found.memory_mb:8.0f}")


if __name__ == "__main__":
    main()
