"""A typed client of the embedded stack's supervisord, and the programs that it runs.

supervisord keeps its programs in configuration files: adding one is writing its file, `reloadConfig` and
`addProcessGroup`; `Supervisor.add` does the three. One malformed file makes every later reload fail, so
files are rendered from a `SupervisedProgram`, whose values cannot escape their line, and appear by rename.
"""

import http.client
import re
import socket
import xmlrpc.client
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, cast

from common import files

NAME = re.compile(r"[a-z0-9]([a-z0-9_-]{0,98}[a-z0-9])?")
"""Names of programs: they become file names, log names and parts of `group:process`."""


class SupervisorUnreachable(Exception):
    """Nobody answers on supervisord's socket, or it is shutting down."""


class SupervisorFault(Exception):
    """A refusal by supervisord; the message says what and why."""


class ProcessState(StrEnum):
    """The states of http://supervisord.org/subprocess.html#process-states."""

    STOPPED = "STOPPED"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    BACKOFF = "BACKOFF"
    STOPPING = "STOPPING"
    EXITED = "EXITED"
    FATAL = "FATAL"
    UNKNOWN = "UNKNOWN"


ALIVE = frozenset({ProcessState.STARTING, ProcessState.RUNNING, ProcessState.STOPPING})
ENDED = frozenset({ProcessState.STOPPED, ProcessState.EXITED, ProcessState.FATAL, ProcessState.UNKNOWN})


@dataclass(frozen=True, slots=True)
class SupervisedProgram:
    """A process that supervisord keeps alive.

    `priority`: lower starts earlier and stops later; equal ones stop together. `healthy_after_seconds`: a
    process that ends sooner counts as a failed start; after `start_retries` of these in a row, each a second
    later than the one before, supervisord gives up (FATAL).
    """

    name: str
    command: tuple[str, ...]
    directory: Path
    log: Path
    priority: int
    healthy_after_seconds: int = 1
    start_retries: int = 1_000_000
    stop_signal: str = "TERM"
    stop_within_seconds: int = 10
    environment: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise ValueError(f"{self.name!r} cannot name a program: lower-case letters, digits, - and _ only")
        for text in (*self.command, str(self.directory), str(self.log)):
            if not text.isprintable():
                raise ValueError(f"{self.name}: {text!r} has unprintable characters")
        for key, value in self.environment.items():
            if not re.fullmatch(r"[A-Z][A-Z0-9_]*=[\w.,:/@+-]*", f"{key}={value}", re.ASCII):
                raise ValueError(f"{self.name}: environment {key}={value!r} needs quoting; pass it as a file")

    def render(self) -> str:
        """The program's section of a supervisord configuration file."""
        lines = {
            "command": " ".join(_quote(part) for part in self.command),
            "directory": _plain(self.directory),
            "autostart": "true",
            "autorestart": "true",
            "startsecs": self.healthy_after_seconds,
            "startretries": self.start_retries,
            "stopsignal": self.stop_signal,
            "stopwaitsecs": self.stop_within_seconds,
            "killasgroup": "true",
            "redirect_stderr": "true",
            "stdout_logfile": _plain(self.log),
            "stdout_logfile_maxbytes": "10MB",
            "stdout_logfile_backups": 3,
            "priority": self.priority,
        }
        if self.environment:
            lines["environment"] = ",".join(f'{key}="{value}"' for key, value in self.environment.items())
        return f"[program:{self.name}]\n" + "".join(f"{key}={value}\n" for key, value in lines.items())


def _quote(argument: str) -> str:
    """The argument for supervisord's shlex, with nothing that its ini parser or its `%` expansion would eat.

    A backslash before every special character keeps a blank from standing before `;` or `#`, which would
    begin a comment; a blank at the end of the line would be stripped from behind its backslash.
    """
    escaped = re.sub(r"([^\w@+=:,./-])", r"\\\1", argument, flags=re.ASCII).replace("%", "%%")
    return f"{escaped}''" if not escaped or escaped.endswith(" ") else escaped


def _plain(path: Path) -> str:
    """A path as a bare ini value, or ValueError when the ini parser would cut it short."""
    if re.search(r"\s[;#]", str(path)):
        raise ValueError(f"{path}: a directory name must not have ; or # after a blank")
    return str(path).replace("%", "%%")


@dataclass(frozen=True, slots=True)
class ObservedProcess:
    """A process at one moment, as supervisord reports it."""

    name: str
    state: ProcessState
    pid: int | None
    since: datetime
    """Start of the process while it lives, else its end; of the program's life when it has not started."""
    starts: int
    """How often this program has been started since it was added; restarts are one fewer."""
    failed_starts: int
    """How often in a row it ended before it counted as healthy."""
    last_exit: str
    """How its last process ended (`exit status 1`, `terminated by SIGKILL`) or why it could not start."""
    log: Path

    @property
    def restarts(self) -> int:
        return max(0, self.starts - 1)


class _SupervisorTransport(xmlrpc.client.Transport):
    def __init__(self, path: Path, timeout_seconds: float) -> None:
        super().__init__()
        self._path = path
        self._timeout_seconds = timeout_seconds

    def make_connection(self, host: Any) -> http.client.HTTPConnection:
        return _SupervisorConnection(self._path, self._timeout_seconds)


class _SupervisorConnection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout_seconds: float) -> None:
        super().__init__("localhost", timeout=timeout_seconds)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(cast(float, self.timeout))
        self.sock.connect(str(self._path))


class Supervisor:
    """The supervisord behind a socket. Every call raises SupervisorUnreachable or SupervisorFault."""

    def __init__(self, socket_path: Path, programs_dir: Path, *, timeout_seconds: float = 5.0) -> None:
        self._socket_path = socket_path
        self._programs_dir = programs_dir
        self._timeout_seconds = timeout_seconds

    def processes(self) -> dict[str, ObservedProcess]:
        """Every program with a state, by name."""
        return {seen["name"]: _observed_process(seen) for seen in self._call("slipway.getProcesses")}

    def add(self, programs: Iterable[SupervisedProgram]) -> None:
        """Make each of the programs exist and start; one that exists already stays as it is."""
        added = list(programs)
        for program in added:
            self.write(program)
        self._call("supervisor.reloadConfig")
        for program in added:
            self._call("supervisor.addProcessGroup", program.name, but="ALREADY_ADDED")

    def write(self, program: SupervisedProgram) -> None:
        """The program's file alone: supervisord reads it when it starts or reloads."""
        files.replace(self._file(program.name), program.render().encode())

    def stop(self, name: str) -> None:
        """Ask the process to end (its stop signal, SIGKILL after its time); returns at once."""
        self._call("supervisor.stopProcess", name, False, but="NOT_RUNNING")

    def start(self, name: str) -> None:
        """Start a program that was stopped; returns at once."""
        self._call("supervisor.startProcess", name, False, but="ALREADY_STARTED")

    def remove(self, name: str) -> bool:
        """Stop and forget a program; True once nothing of it is left. Call again while it is False."""
        seen = self.processes().get(name)
        if seen is not None:
            if seen.state not in ENDED:
                self.stop(name)
                if seen.state != ProcessState.BACKOFF:  # which has no process to wait for
                    return False
            self._call("supervisor.removeProcessGroup", name, but="BAD_NAME")
        self._file(name).unlink(missing_ok=True)
        return True

    def runs(self, program: SupervisedProgram) -> bool:
        """Whether supervisord's file of it says just this."""
        try:
            return self._file(program.name).read_text() == program.render()
        except FileNotFoundError:
            return False

    def _file(self, name: str) -> Path:
        if not NAME.fullmatch(name):
            raise ValueError(f"{name!r} cannot name a program")
        return self._programs_dir / f"{name}.conf"

    def _call(self, method: str, *arguments: Any, but: str = "") -> Any:
        """Call one method; the fault named `but` counts as done."""
        transport = _SupervisorTransport(self._socket_path, self._timeout_seconds)
        proxy = xmlrpc.client.ServerProxy("http://localhost/RPC2", transport=transport)
        try:
            with proxy:
                return getattr(proxy, method)(*arguments)
        except xmlrpc.client.Fault as fault:
            if but and fault.faultString.startswith(but):
                return None
            if fault.faultString.startswith("SHUTDOWN_STATE"):
                raise SupervisorUnreachable("supervisord is shutting down") from None
            raise SupervisorFault(f"{method}{arguments}: {fault.faultString}") from None
        except (OSError, http.client.HTTPException, xmlrpc.client.Error) as error:
            raise SupervisorUnreachable(
                f"supervisord does not answer on {self._socket_path}: {error}"
            ) from None


def _observed_process(seen: Mapping[str, Any]) -> ObservedProcess:
    return ObservedProcess(
        name=seen["name"],
        state=ProcessState(seen["statename"]),
        pid=seen["pid"] or None,
        since=datetime.fromtimestamp(seen["since"], UTC),
        starts=seen["starts"],
        failed_starts=seen["failed_starts"],
        last_exit=seen["last_exit"],
        log=Path(seen["log"]),
    )
