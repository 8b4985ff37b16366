"""Services under test: each a real worker with the processes of its app."""

import os
import textwrap
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from tests.serving.workers import RunningWorker, running, wait_until


@contextmanager
def service(
    directory: Path, source: str, environment: Mapping[str, str] | None = None, **settings: Any
) -> Iterator[RunningWorker]:
    """A ready worker that serves the source as its app.py. `settings`: of the app engine."""
    directory.mkdir(exist_ok=True)
    (directory / "app.py").write_text(textwrap.dedent(source))
    with running(
        directory / "log",
        environment,
        engine="app",
        model_dir=directory,
        settings=settings,
        linger_seconds=0.0,
    ) as worker:
        yield worker.until_ready()


def pids(worker: RunningWorker) -> dict[str, int]:
    """Return the PIDs of the worker's ready processes, by name."""
    shown = worker.health()[1]["processes"]
    return {one["name"]: one["pid"] for one in shown if one["state"] == "ready"}


class BackgroundCall(threading.Thread):
    """A request in the background."""

    def __init__(self, worker: RunningWorker, path: str, body: Any = None, **headers: str) -> None:
        super().__init__(daemon=True)
        self._url, self._body, self._headers = f"{worker.url}{path}", body, headers
        self.status = 0
        self.answer: Any = None
        self.start()

    def run(self) -> None:
        headers = {name.replace("_", "-"): value for name, value in self._headers.items()}
        answer = httpx2.post(self._url, json=self._body, headers=headers, timeout=60)
        self.status = answer.status_code
        is_json = "json" in answer.headers.get("content-type", "")
        self.answer = answer.json() if is_json else answer.content

    def result(self) -> tuple[int, Any]:
        self.join(60)
        assert not self.is_alive(), "no answer within 60 s"
        return self.status, self.answer


def descendants(pid: int) -> list[int]:
    """Return the process and those below it, as the kernel lists them."""
    found = [pid]
    for one in found:
        for task in Path(f"/proc/{one}/task").glob("*/children"):
            found += [int(child) for child in task.read_text().split()]
    return found


def alive(numbers: list[int]) -> list[int]:
    return [one for one in numbers if os.path.exists(f"/proc/{one}/stat") and not is_zombie(one)]  # noqa: PTH110


def is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def until_ended(worker: RunningWorker, address: str) -> dict[str, Any]:
    """Return the document of a job that is over."""

    def ended() -> dict[str, Any] | None:
        document: dict[str, Any] = worker.client.get(f"{worker.url}{address}").json()
        return document if document["state"] not in ("queued", "running") else None

    return wait_until(ended, seconds=60)  # type: ignore[no-any-return]
