"""Real workers in processes of their own, for the tests."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import orjson

from serving.worker_command import WORKER_ENVIRONMENT, WorkerCommand

PROJECT = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 100.0


def wait_until(true: Callable[[], Any], *, seconds: float = PATIENCE_SECONDS, what: str = "it") -> Any:
    end = time.monotonic() + seconds
    while not (value := true()):
        assert time.monotonic() < end, f"{what} did not come within {seconds:g} s"
        time.sleep(0.01)
    return value


class RunningWorker:
    def __init__(self, process: "subprocess.Popen[bytes]", log: Path, *, engine: str = "echo") -> None:
        self.process = process
        self.engine = engine
        self.log_path = log
        self.client = httpx2.Client(timeout=PATIENCE_SECONDS)

    @property
    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    @property
    def url(self) -> str:
        def listening() -> "re.Match[str] | None":
            found = re.search(r"listens on ([\d.]+):(\d+)", self.log)
            assert found or self.process.poll() is None, self.log
            return found

        found = wait_until(listening, what="the worker")
        return f"http://{found[1]}:{found[2]}"

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def health(self) -> "tuple[int, dict[str, Any]]":
        answer = self.client.get(f"{self.url}/healthz")
        return answer.status_code, answer.json()

    def until_ready(self, seconds: float = PATIENCE_SECONDS) -> "RunningWorker":
        def ready() -> bool:
            status, body = self.health()
            assert body["state"] != "failed", body["reason"]
            return status == 200

        wait_until(ready, seconds=seconds, what="a ready worker")
        return self

    def post(self, path: str, **body: Any) -> httpx2.Response:
        return self.client.post(f"{self.url}{path}", json=body)

    def events(self, path: str, **body: Any) -> "list[dict[str, Any]]":
        """The documents of a stream that must end as it should."""
        with self.client.stream("POST", f"{self.url}{path}", json={**body, "stream": True}) as answer:
            assert answer.status_code == 200, answer.read()
            assert answer.headers["content-type"].startswith("text/event-stream")
            lines = [line for line in answer.iter_lines() if line]
        assert all(line.startswith("data: ") for line in lines)
        assert lines[-1] == "data: [DONE]"
        return [orjson.loads(line[6:]) for line in lines[:-1]]

    def metric(self, name: str, /, **labels: str) -> float:
        text = self.client.get(f"{self.url}/metrics").text
        wanted = ",".join(f'{key}="{value}"' for key, value in sorted(labels.items()))
        series = f"{name}{{{wanted}}}" if wanted else name
        for line in text.splitlines():
            if line.startswith(f"{series} "):
                return float(line.rpartition(" ")[2])
        return 0.0

    def wait(self, seconds: float = PATIENCE_SECONDS) -> int:
        return self.process.wait(seconds)


def command(**options: Any) -> WorkerCommand:
    sound: dict[str, Any] = {
        "model_dir": Path("/nowhere"),
        "name": "chat-1-0",
        "deployment": "1",
        "service": "talk",
        "version_label": "chat:v1",
        "engine": "echo",
        "settle_seconds": 0.0,
    }
    return WorkerCommand(**(sound | options))


@contextmanager
def running(
    log: Path, environment: Mapping[str, str] | None = None, **options: Any
) -> Iterator[RunningWorker]:
    """A worker process; killed at the end if it is still there."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command(**options).argv(sys.executable),
            cwd=PROJECT,
            env={**os.environ, **WORKER_ENVIRONMENT, **(environment or {})},
            stdout=output,
            stderr=output,
        )
    worker = RunningWorker(process, log, engine=options.get("engine", "echo"))
    try:
        yield worker
    finally:
        worker.client.close()
        process.kill()
        process.wait()
