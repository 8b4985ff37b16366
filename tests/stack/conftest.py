import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
import pytest

from clusters.backends.supervisor_rpc import ObservedProcess, Supervisor
from controlplane.embedded import running
from controlplane.embedded.home import Home
from controlplane.environment import PROJECT
from tests.marked import MARK, living
from tests.patience import eventually
from tests.ports import PortBlock


class Planes:
    """The supervisords of both planes as one."""

    def __init__(self, home: Home) -> None:
        self._planes = [Supervisor(plane.socket, home.programs) for plane in (home.control, home.data)]

    def processes(self) -> dict[str, ObservedProcess]:
        return {name: seen for plane in self._planes for name, seen in plane.processes().items()}

    def stop(self, name: str) -> None:
        self._of(name).stop(name)

    def start(self, name: str) -> None:
        self._of(name).start(name)

    def _of(self, name: str) -> Supervisor:
        return next(plane for plane in self._planes if name in plane.processes())


class RunningStack:
    """A launcher in a process of its own; what comes of it is found by a mark that all inherit."""

    def __init__(self, home: Path, module: str, *arguments: str, database_url: str = "") -> None:
        self.home = Home(home)
        self.database_url = database_url
        self.ports = PortBlock()
        self.port, self.gateway_port, self.admin_port = self.ports[0], self.ports[1], self.ports[2]
        self.mark = secrets.token_hex(8)
        self.output = home.parent / f"{home.name}.out"
        self.module = module
        self.process = self.launch(*arguments)

    @property
    def environ(self) -> dict[str, str]:
        return os.environ | {
            MARK: self.mark,
            "SLIPWAY_HOME": str(self.home.path),
            "SLIPWAY_PORT": str(self.port),
            "SLIPWAY_GATEWAY_PORT": str(self.gateway_port),
            "SLIPWAY_GATEWAY_ADMIN_PORT": str(self.admin_port),
            "SLIPWAY_WORKER_PORTS": "{}-{}".format(*self.ports.workers),
            "SLIPWAY_SAMPLE_CLUSTER_PORT": str(self.ports[3]),
            "SLIPWAY_SAMPLE_GATEWAY_PORT": str(self.ports[4]),
            "SLIPWAY_SAMPLE_GATEWAY_ADMIN_PORT": str(self.ports[5]),
            "KUBECONFIG": "",
            "SLIPWAY_DATABASE_URL": self.database_url,
        }

    def launch(self, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        with self.output.open("wb") as output:
            streams = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": output} | options
            return subprocess.Popen(
                [sys.executable, "-m", self.module, *arguments], cwd=PROJECT, env=self.environ, **streams
            )

    @property
    def said(self) -> str:
        return self.output.read_text()

    @property
    def supervisor(self) -> Planes:
        return Planes(self.home)

    def supervisord_pid(self, plane: str) -> int:
        (process,) = running.supervisords(getattr(self.home, plane).conf)
        return process.pid

    def pids(self, *names: str) -> dict[str, int]:
        """Return the PIDs of the data plane's programs, or of these; read from the process table."""
        return {
            name: process.pid
            for name, process in running.programs(self.home.data.socket).items()
            if not names or name in names
        }

    def wait_until_ready(self, *, seconds: float = 60) -> None:
        eventually(lambda: "Ctrl-C stops" in self.said or self.process.poll() is not None, seconds=seconds)
        assert self.process.poll() is None, self.said

    def left_over(self) -> list[str]:
        """Every living process that carries our mark."""
        found = []
        for process in living(self.mark):
            with suppress(psutil.Error):
                found.append(f"{process.pid} {' '.join(process.cmdline())}")
        return found

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(60)
        for line in self.left_over():
            with suppress(ProcessLookupError):
                os.kill(int(line.split()[0]), signal.SIGKILL)


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A short one: a home holds unix sockets, whose paths may have 107 bytes."""
    with TemporaryDirectory(prefix="slipway-") as directory:
        yield Path(directory)


@pytest.fixture
def small_stack(tmp_path: Path) -> Iterator[RunningStack]:
    """The launcher with three parts that start at once (small_stack.py), ready."""
    stack = RunningStack(tmp_path / "home", "tests.stack.small_stack")
    try:
        stack.wait_until_ready()
        # launcher, two supervisords, five parts, and the two children of `family` and `outlives`
        eventually(lambda: len(stack.left_over()) == 12)
        yield stack
    finally:
        stack.stop()
