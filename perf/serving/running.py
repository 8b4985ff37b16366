"""A service, started as `slipway serve` starts it."""

import json
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from serving.worker_command import WorkerCommand

READY_WITHIN_SECONDS = 120.0


@dataclass(frozen=True)
class RunningService:
    port: int
    pid: int
    log: Path

    def health(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/healthz", timeout=10) as answer:
            document: dict[str, Any] = json.load(answer)
        return document


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def service(source: str, *, queue_limit: int = 10_000, **settings: Any) -> Iterator[RunningService]:
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "app.py").write_text(textwrap.dedent(source))
        port = free_port()
        command = WorkerCommand(
            model_dir=Path(directory),
            name="perf",
            deployment="perf",
            service="perf",
            version_label="perf:1",
            engine="app",
            port=port,
            settings=settings,
            queue_limit=queue_limit,
            settle_seconds=0.0,
            linger_seconds=0.0,
            exit_with_parent=True,
        )
        log = Path(directory) / "log"
        with (
            log.open("wb") as output,
            subprocess.Popen(command.argv(sys.executable), stderr=output) as worker,
        ):
            try:
                yield _ready(RunningService(port, worker.pid, log), worker)
            finally:
                worker.terminate()
                try:
                    worker.wait(20)
                except subprocess.TimeoutExpired:
                    worker.kill()


def _ready(started: RunningService, worker: "subprocess.Popen[bytes]") -> RunningService:
    deadline = time.monotonic() + READY_WITHIN_SECONDS
    while time.monotonic() < deadline and worker.poll() is None:
        try:
            started.health()
        except OSError:
            time.sleep(0.05)
        else:
            return started
    raise RuntimeError(f"the service is not ready: {started.log.read_text()[-3_000:]}")
