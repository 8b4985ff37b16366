"""Lists and search beside MLflow's: what one request costs the server's process in CPU, side by side.

Both run one worker on SQLite on this machine and are asked by turns, over one warm connection each. MLflow
is not among what Slipway installs: `SLIPWAY_PERF_MLFLOW` names a Python that has it
(`python -m venv DIRECTORY && DIRECTORY/bin/pip install mlflow`, then `DIRECTORY/bin/python`).
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import quote

import psutil

from perf.registry.server import free_port, populated, running, web
from perf.registry.table import directory, heading, line

VARIABLE = "SLIPWAY_PERF_MLFLOW"
REQUESTS = 40
LIMIT = 0.5

Row = tuple[str, str, str]
API, PEER = "/api/v1/", "/api/2.0/mlflow/"
ROWS: tuple[Row, ...] = (
    ("first 100 models", "models/", "registered-models/search?max_results=100"),
    ("10 models", "models/?limit=10", "registered-models/search?max_results=10"),
    (
        "models by a word of the name",
        "models/?q=chat",
        "registered-models/search?max_results=100&filter=" + quote("name LIKE '%chat%'"),
    ),
    ("one model", "models/chat-00000/", "registered-models/get?name=chat-00000"),
    (
        "versions of a model",
        "models/chat-00000/versions/",
        "model-versions/search?max_results=100&filter=" + quote("name='chat-00000'"),
    ),
    (
        "versions by a tag, over all models",
        "versions/?tag=evaluated&limit=100",
        "model-versions/search?max_results=100&filter=" + quote("tags.evaluated = 'yes'"),
    ),
    ("one version", "models/chat-00000/versions/v1/", "model-versions/get?name=chat-00000&version=1"),
)


def measure(models: int, versions: int, rounds: int) -> None:
    python = os.environ.get(VARIABLE, "")
    if not shutil.which(python):
        sys.exit(f"{VARIABLE} names no Python. {__doc__}")
    with directory() as home:
        token = populated(home, models, versions)
        database = home / "mlflow.db"
        filler = Path(__file__).with_name("peer_mlflow.py")
        subprocess.run([python, str(filler), str(database), str(models), str(versions)], check=True)
        port = free_port()
        command = [python, "-m", "mlflow", "server", "--backend-store-uri", f"sqlite:///{database}"]
        command += ["--port", str(port), "--workers", "1", "--artifacts-destination", str(home / "artifacts")]
        quiet = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
        with (
            web(home) as (ours, our_port),
            running(command, port=port, ready="/health", environment=quiet) as it,
        ):
            heading(
                f"{models:,} models x {versions} versions on SQLite: own CPU of one request, "
                f"{rounds} rounds of {REQUESTS}"
            )
            asked = RequestCost(ours, our_port, API, {"Authorization": f"Bearer {token}"})
            peer = RequestCost(it, port, PEER, {})
            for what, path, peers in ROWS:
                _compare(what, lambda path=path: asked(path), lambda peers=peers: peer(peers), rounds)


class RequestCost:
    """`asked(path)`: milliseconds of CPU that a request costs the server, over `REQUESTS` of them."""

    def __init__(self, server: psutil.Process, port: int, root: str, headers: dict[str, str]) -> None:
        self._server, self._root, self._headers = server, root, headers
        self._connection = HTTPConnection("127.0.0.1", port, timeout=60)

    def __call__(self, path: str) -> float:
        # A server closes what was idle while the other one was asked.
        self._connection.close()
        self._ask(path)
        before = self._used()
        for _ in range(REQUESTS):
            self._ask(path)
        after = self._used()
        # Of several processes it is the one that answers: the others watch.
        return max(after[pid] - before.get(pid, 0.0) for pid in after) / REQUESTS * 1000

    def _used(self) -> dict[int, float]:
        family = [self._server, *self._server.children(recursive=True)]
        times = {one.pid: one.cpu_times() for one in family}
        return {pid: spent.user + spent.system for pid, spent in times.items()}

    def _ask(self, path: str) -> None:
        self._connection.request("GET", self._root + path, headers=self._headers)
        answer = self._connection.getresponse()
        body = answer.read()
        if answer.status != 200 or not json.loads(body):
            raise RuntimeError(f"{path}: {answer.status} {body[:300]!r}")


def _compare(what: str, ours: Callable[[], float], peer: Callable[[], float], rounds: int) -> None:
    found = [(ours(), peer()) for _ in range(rounds)]
    mine, its = (statistics.median(one) for one in zip(*found, strict=True))
    shown = f"{mine:.1f} / {its:.1f} ms = {mine / its:.2f} x"
    line(what, shown, f"<= {LIMIT:.1f} x MLflow", holds=mine <= LIMIT * its)
