"""A web process of Slipway by itself, over a home whose database is there already."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

import psutil

from perf.registry.table import ROOT

START_SECONDS = 180.0
_POPULATE = """
import sys
from perf.registry.lists import populate
from perf.registry.table import database_in
with database_in(sys.argv[1]):
    print(populate(int(sys.argv[2]), int(sys.argv[3]), scopes=sys.argv[4:])[1])
"""


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


@contextmanager
def running(
    command: Sequence[str], *, port: int, ready: str, environment: Mapping[str, str]
) -> Iterator[psutil.Process]:
    """A server that answers 200 at `ready`; it and its children are gone afterwards."""
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    server = psutil.Process(process.pid)
    try:
        _wait_until_ready(process, port, ready)
        yield server
    finally:
        family = [*server.children(recursive=True), server] if server.is_running() else []
        for one in family:
            one.kill()
        process.wait()


def _wait_until_ready(process: subprocess.Popen[bytes], port: int, ready: str) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        if process.poll() is not None:
            raise RuntimeError(f"{process.args} ended with {process.returncode}.")
        try:
            connection = HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", ready)
            if connection.getresponse().status == 200:
                return
        except OSError:
            pass
        time.sleep(0.2)
    raise RuntimeError(f"{process.args} does not answer.")


@contextmanager
def web(home: Path) -> Iterator[tuple[psutil.Process, int]]:
    """Slipway's web process over that home, and its port."""
    port = free_port()
    environment = {
        "SLIPWAY_HOME": str(home),
        "SLIPWAY_SECRET_KEY": "only-for-perf-" + "x" * 40,
        "SLIPWAY_LOG_LEVEL": "ERROR",
        "DJANGO_SETTINGS_MODULE": "controlplane.settings.embedded",
    }
    command = [sys.executable, "-m", "uvicorn", "controlplane.asgi:application", "--port", str(port)]
    command += ["--no-proxy-headers", "--no-access-log", "--log-level", "error"]
    with running(command, port=port, ready="/healthz", environment=environment) as server:
        yield server, port


def populated(home: Path, models: int, versions: int, *scopes: str) -> str:
    """The token, with these scopes, of who may see all that is made in that home."""
    command = [sys.executable, "-c", _POPULATE, str(home), str(models), str(versions), "read", *scopes]
    made = subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    return made.stdout.strip().splitlines()[-1]
