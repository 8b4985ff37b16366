"""The places in the home and what must hold before anything starts."""

import errno
import os
import secrets
import socket
import stat
import tempfile
from collections.abc import Container, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from controlplane.embedded.running import CONTROL, DATA
from controlplane.env import refuse
from controlplane.environment import Environment, variable

PROBE_BYTES = 2**20
"""Room for the first writes: without it nothing could be prepared."""
OTHERS = stat.S_IRWXG | stat.S_IRWXO


class HomeUnusable(Exception):
    """Reason why the home cannot be used: a line that says what is wrong, and what to do."""


@dataclass(frozen=True, slots=True)
class Plane:
    """The files of one supervisord."""

    name: str
    run: Path
    logs: Path

    @property
    def conf(self) -> Path:
        return self.run / f"{self.name}.conf"

    @property
    def socket(self) -> Path:
        return self.run / f"{self.name}.sock"

    @property
    def log(self) -> Path:
        return self.logs / f"supervisord-{self.name}.log"

    @property
    def output(self) -> Path:
        """Return the file of what it says before it has a log, and when it fails."""
        return self.logs / f"supervisord-{self.name}.out"


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
        """Return supervisord's directory for model workers; clusters/backends/embedded writes its files."""
        return self.run / "supervisor.d"

    @property
    def control(self) -> Plane:
        return Plane(CONTROL, self.run, self.logs)

    @property
    def data(self) -> Plane:
        return Plane(DATA, self.run, self.logs)

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

    @property
    def audit_key(self) -> Path:
        return self.path / "audit-key"

    def make(self) -> list[str]:
        """Create what is missing, and see to it that nobody but the owner may look into it.

        Returns a line for the person at the terminal when others could until now. Raises Refusal.
        """
        directories = (
            self.path,
            self.run,
            self.logs,
            self.programs,
            self.valkey_data,
            self.envoy,
            self.models,
        )
        directory = self.path
        try:
            said = self._close() if self.path.exists() else []
            for directory in directories:
                directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            for directory in directories:
                with tempfile.TemporaryFile(dir=directory) as probe:
                    probe.write(bytes(PROBE_BYTES))
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise HomeUnusable(
                    f"{variable('home')}: the disk of {directory} is full. Free some space and start again. "
                    "What answers model traffic already goes on."
                ) from None
            raise HomeUnusable(
                f"{variable('home')}: cannot write to {error.filename or directory} ({error.strerror}). "
                "Give its owner the right, or name another directory."
            ) from None
        return said

    def _close(self) -> list[str]:
        """Take from other people whatever rights they have in here. Raises Refusal, OSError."""
        status = self.path.stat()
        if not stat.S_ISDIR(status.st_mode):
            return []
        entries = {entry.name for entry in self.path.iterdir()}
        is_open = bool(status.st_mode & OTHERS)
        if is_open:
            self._refuse_to_close(status, entries)
        for path in (self.path, *self._private()):
            with suppress(FileNotFoundError):
                mode = path.lstat().st_mode
                if mode & OTHERS and not stat.S_ISLNK(mode):
                    path.chmod(stat.S_IMODE(mode) & ~OTHERS)
        return [f"Others on this machine could read {self.path}. Now only you can."] * bool(
            is_open and entries
        )

    def _refuse_to_close(self, status: os.stat_result, entries: set[str]) -> None:
        """Raises Refusal when the directory is not ours, or not ours alone."""
        fault = ""
        if status.st_uid != os.geteuid() and os.geteuid() != 0:
            fault = f"others may read {self.path}, and only its owner can end that"
        elif status.st_mode & stat.S_ISVTX or self.path.resolve() == Path("/"):
            fault = f"{self.path} is everybody's"
        elif entries and not entries & {"run", "secret-key", "db.sqlite3"}:
            fault = f"{self.path} holds other files, which others may read"
        if fault:
            raise HomeUnusable(
                f"{variable('home')}: {fault}. Name a directory of your own, or close it: "
                f"`chmod 700 {self.path}`."
            )

    def _private(self) -> Iterator[Path]:
        """List what lies in the home, without files of models, which are many: their directory is closed."""
        yield from self.path.iterdir()
        for place in (self.run, self.logs, self.valkey_data):
            for directory, names, files in os.walk(place):
                yield from (Path(directory, name) for name in (*names, *files))


def secret_of(home: Home) -> str:
    """Signs sessions. Exit status 2 with one line when it cannot be made."""
    return _secret_in(home.secret_key, "Remove it: a new one is made, and everybody logs in again.")


def audit_key_of(home: Home) -> str:
    """Signs the audit record. Exit status 2 with one line when it cannot be made."""
    return _secret_in(home.audit_key, "Put it back from a backup: it proves what the audit record holds.")


def _secret_in(path: Path, advice: str) -> str:
    """A secret of the home's own, made on first use, mode 600."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            # Linked into place whole: of two processes that make one, both read the same.
            with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=".secret-") as fresh:
                fresh.write(secrets.token_urlsafe(48))
                fresh.flush()
                with suppress(FileExistsError):
                    os.link(fresh.name, path)
        secret = path.read_text().strip()
    except OSError as error:
        raise refuse(f"{path}: {error.strerror}. Make it readable and its directory writable.") from None
    if len(secret) < 32:
        raise refuse(f"{path} is not whole. {advice}")
    return secret


PORTS_OF = {
    "gateway": ("gateway_port", "gateway_admin_port"),
    "sample-gateway": ("sample_gateway_port", "sample_gateway_admin_port"),
    "sample-cluster": ("sample_cluster_port",),
}
"""Settings of the ports that a program of the data plane listens on."""
LOOPBACK = "127.0.0.1"


def check_ports(env: Environment, *, held: Container[str] = (), sample: bool = False) -> None:
    """Raises Refusal naming the first port that is taken or not allowed, but for those that we `held`.

    `sample`: those of the sample's cluster, too.
    """
    wanted = {"port": env.bind, "gateway_port": env.bind, "gateway_admin_port": LOOPBACK}
    if sample:
        wanted |= {
            "sample_gateway_port": env.bind,
            "sample_gateway_admin_port": LOOPBACK,
            "sample_cluster_port": LOOPBACK,
        }
    seen: dict[int, str] = {}
    for field, address in wanted.items():
        port: int = getattr(env, field)
        if port in seen:
            raise HomeUnusable(
                f"{variable(field)} and {variable(seen[port])} are both {port}. Give each its own."
            )
        seen[port] = field
        if field in held:
            continue
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.socket(family) as probe:
            # Envoy and uvicorn set it too: connections of the last run in TIME_WAIT do not count.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, port))
                probe.listen(1)
            except OSError as error:
                raise HomeUnusable(_port_trouble(field, address, port, error)) from None


def _port_trouble(field: str, address: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"{variable(field)}: port {port} on {address} is taken. "
            f"Stop what listens there, or set {variable(field)} to a free port."
        )
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{variable('bind')}: {address} is no address of this machine. Name one that is, or 0.0.0.0."
    return f"{variable(field)}: cannot listen on {address} port {port} ({error.strerror}). Set another port."
