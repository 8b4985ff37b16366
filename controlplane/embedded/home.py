"""The places in the home and what must hold before anything starts."""

import errno
import fcntl
import os
import secrets
import socket
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from controlplane.env import Environment, refuse, variable

ABANDONED_STACK_ENDS_WITHIN_SECONDS = 30.0


class Refusal(Exception):
    """One line: what is wrong, and what to do."""


@dataclass(frozen=True, slots=True)
class Home:
    """The directory of `SLIPWAY_HOME`, by the names of its parts."""

    path: Path

    @property
    def run(self) -> Path:
        return self.path / "run"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def programs(self) -> Path:
        """supervisord's files of the model workers: clusters/backends/embedded.py writes them."""
        return self.run / "supervisor.d"

    @property
    def supervisor_conf(self) -> Path:
        return self.run / "supervisord.conf"

    @property
    def supervisor_socket(self) -> Path:
        return self.run / "supervisor.sock"

    @property
    def valkey_socket(self) -> Path:
        return self.run / "valkey.sock"

    @property
    def valkey_data(self) -> Path:
        return self.path / "valkey"

    @property
    def envoy(self) -> Path:
        return self.run / "envoy"

    @property
    def lock(self) -> Path:
        return self.run / "lock"

    @property
    def models(self) -> Path:
        return self.path / "models"

    @property
    def secret_key(self) -> Path:
        return self.path / "secret-key"

    def make(self) -> None:
        """Create what is missing; nobody but its owner may look into `run/`. Raises Refusal."""
        directories = (
            self.path,
            self.run,
            self.logs,
            self.programs,
            self.valkey_data,
            self.envoy,
            self.models,
        )
        try:
            for directory in directories:
                directory.mkdir(parents=True, exist_ok=True)
                with tempfile.TemporaryFile(dir=directory):
                    pass
            self.run.chmod(0o700)
        except OSError as error:
            raise Refusal(
                f"{variable('home')}: cannot write to {directory} ({error.strerror}). "
                "Give its owner the right, or name another directory."
            ) from None


def secret_of(home: Home) -> str:
    """The home's own secret, made on first use, mode 600. Exit status 2 with one line when it cannot be."""
    path = home.secret_key
    try:
        home.path.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            # Linked into place whole: of two processes that make one, both read the same.
            with tempfile.NamedTemporaryFile("w", dir=home.path, prefix=".secret-") as fresh:
                fresh.write(secrets.token_urlsafe(48))
                fresh.flush()
                with suppress(FileExistsError):
                    os.link(fresh.name, path)
        secret = path.read_text().strip()
    except OSError as error:
        raise refuse(f"{path}: {error.strerror}. Make it readable and its directory writable.") from None
    if len(secret) < 32:
        raise refuse(f"{path} is not whole. Remove it: a new one is made, and everybody logs in again.")
    return secret


class HomeLock:
    """One stack per home. supervisord inherits the lock, so that it lasts until that has ended too."""

    def __init__(self, home: Home) -> None:
        self._path = home.lock
        self.fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def take(self, address: str) -> None:
        """Raises Refusal when another stack has this home; one that lost its launcher is waited for."""
        deadline = time.monotonic() + ABANDONED_STACK_ENDS_WITHIN_SECONDS
        while not self._try():
            holder, where = self._holder()
            if psutil.pid_exists(holder) or time.monotonic() > deadline:
                raise Refusal(
                    f"Slipway is already running on {self._path.parent.parent} (process {holder}, {where}). "
                    f"Stop that one first, or start this one with another {variable('home')} and other ports."
                )
            time.sleep(0.2)
        os.ftruncate(self.fd, 0)
        os.pwrite(self.fd, f"{os.getpid()} {address}\n".encode(), 0)

    def _try(self) -> bool:
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _holder(self) -> tuple[int, str]:
        """(process, address) of the launcher that took the lock last."""
        pid, _, address = os.pread(self.fd, 300, 0).decode(errors="replace").strip().partition(" ")
        return (int(pid) if pid.isdecimal() else 0), address


def check_ports(env: Environment) -> None:
    """Raises Refusal naming the first port that is taken or not allowed."""
    for field, address in (
        ("port", env.bind),
        ("gateway_port", env.bind),
        ("gateway_admin_port", "127.0.0.1"),
    ):
        port: int = getattr(env, field)
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.socket(family) as probe:
            # Envoy and uvicorn set it too: connections of the last run in TIME_WAIT do not count.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, port))
                probe.listen(1)
            except OSError as error:
                raise Refusal(_port_trouble(field, address, port, error)) from None


def _port_trouble(field: str, address: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"{variable(field)}: port {port} on {address} is taken. "
            f"Stop what listens there, or set {variable(field)} to a free port."
        )
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{variable('bind')}: {address} is no address of this machine. Name one that is, or 0.0.0.0."
    return f"{variable(field)}: cannot listen on {address} port {port} ({error.strerror}). Set another port."
