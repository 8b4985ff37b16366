"""CUDA MPS on this machine, by NVIDIA's own control program: processes of one user share its GPUs.

https://docs.nvidia.com/deploy/mps/latest/mpsv2-interface.html
"""

import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

CONTROL = "nvidia-cuda-mps-control"
PLACES = ("/usr/local/nvidia/bin", "/opt/nvidia/bin")
"""Where drivers of containers lie that are not on the path."""
WITHIN_SECONDS = 10.0
ENDED_WITHIN_SECONDS = 20.0


class MpsFailed(Exception):
    """The control program refuses, or does not answer; the message says why."""


@dataclass(frozen=True)
class MpsClient:
    """A process that uses a GPU through the server of its user."""

    server: int
    pid: int


@dataclass(frozen=True)
class MpsControl:
    """The control daemon of a directory. directory: None is that which every CUDA process looks at."""

    directory: Path | None = None

    @staticmethod
    def program() -> str | None:
        path = os.pathsep.join((os.environ.get("PATH", os.defpath), *PLACES))
        return shutil.which(CONTROL, path=path)

    @property
    def environment(self) -> dict[str, str]:
        """Variables by which a process finds this daemon."""
        if self.directory is None:
            return {}
        return {
            "CUDA_MPS_PIPE_DIRECTORY": str(self.directory / "pipe"),
            "CUDA_MPS_LOG_DIRECTORY": str(self.directory / "log"),
        }

    def start(self) -> None:
        """Start the daemon, unless it runs. Raises MpsFailed."""
        if self.is_running():
            return
        for place in self.environment.values():
            Path(place).mkdir(parents=True, exist_ok=True)
        self._run(["-d"])

    def is_running(self) -> bool:
        try:
            self.ask("get_default_active_thread_percentage")
        except MpsFailed:
            return False
        return True

    def set_defaults(self, threads: float, memory_mib: Mapping[int, int]) -> None:
        """Limit each client that begins later to a percentage of the threads, and to so much memory of
        each GPU. Raises MpsFailed."""
        self.ask(f"set_default_active_thread_percentage {threads:.2f}")
        for card, limit in memory_mib.items():
            self.ask(f"set_default_device_pinned_mem_limit {card} {limit}M")

    def default_threads(self) -> float:
        """Raises MpsFailed."""
        answer = self.ask("get_default_active_thread_percentage")
        try:
            return float(answer)
        except ValueError:
            raise MpsFailed(f"{CONTROL} answers {answer[:200]!r} for the default of threads.") from None

    def clients(self) -> list[MpsClient]:
        """Raises MpsFailed."""
        servers = _numbers(self.ask("get_server_list"))
        return [
            MpsClient(server, client)
            for server in servers
            for client in _numbers(self.ask(f"get_client_list {server}"))
        ]

    def terminate(self, client: MpsClient) -> str:
        """End the outstanding work of a client, and return what is said of it. A kill would leave its
        neighbours undefined. Raises MpsFailed."""
        return self.ask(f"terminate_client {client.server} {client.pid}")

    def end(self) -> None:
        """Terminate the clients, wait until they are gone, and end the daemon. Raises MpsFailed."""
        if not self.is_running():
            return
        deadline = time.monotonic() + ENDED_WITHIN_SECONDS
        asked: set[MpsClient] = set()
        while left := self.clients():
            for client in set(left) - asked:
                self.terminate(client)
                asked.add(client)
            if time.monotonic() > deadline:
                pids = ", ".join(str(one.pid) for one in left)
                raise MpsFailed(
                    f"Clients of MPS were terminated and keep their connection: end the processes {pids}."
                )
            time.sleep(0.2)
        self.ask("quit")
        while self.is_running() and time.monotonic() < deadline:
            time.sleep(0.2)

    def ask(self, command: str) -> str:
        """Raises MpsFailed."""
        return self._run([], command + "\n").strip()

    def _run(self, arguments: list[str], text: str = "") -> str:
        program = self.program()
        if program is None:
            raise MpsFailed(f"This machine has no {CONTROL}: it comes with NVIDIA's driver.")
        try:
            # The daemon keeps what it inherits open: nobody may wait for the end of its output.
            ran = subprocess.run(
                [program, *arguments],
                input=text,
                text=True,
                stdout=subprocess.PIPE if text else subprocess.DEVNULL,
                stderr=subprocess.STDOUT if text else subprocess.DEVNULL,
                env=os.environ | self.environment,
                timeout=WITHIN_SECONDS,
                check=False,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise MpsFailed(f"{CONTROL} does not answer: {error}") from None
        if ran.returncode:
            said = (ran.stdout or "").strip()[:300] or f"exit status {ran.returncode}"
            raise MpsFailed(f"{CONTROL} refuses {text.strip() or ' '.join(arguments)}: {said}")
        return ran.stdout or ""


def _numbers(answer: str) -> list[int]:
    return [int(word) for word in answer.split() if word.isdecimal()]
