"""The process that imports a directory: `python -m models_registry.processes.importer '<job>'`.

It reads what nobody trusts, so it has no database, no settings and no secrets; it writes into its intake
only, and its result into a note there. One per intake: a second one finds the lock taken and ends. It ends at
once, wherever it is, when it is asked to stop or when the process that stands for its stack is gone; whoever
comes next on the intake cleans up and continues.
"""

import json
import os
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import psutil

from models_registry.errors import IntakeBusy
from models_registry.hub.source import RepositorySource
from models_registry.hub.target import RepositoryTarget, SlipwayTarget
from models_registry.importing.allowance import Allowance
from models_registry.importing.directory import (
    THREADS,
    DirectorySource,
    ImportResult,
    Progress,
    import_directory,
)
from models_registry.importing.upload import UploadSource
from models_registry.store import BUCKET, Intake, opened_at

STARTED, PROGRESS, RESULT = "started", "progress", "result"
LOOK_EVERY_SECONDS = 0.25
CLOCK_TOLERANCE_SECONDS = 5.0
MEMORY_BYTES = 6 * 1024**3
"""Far above what parsing needs; it ends a process that a crafted file makes swell."""
EXIT_BUSY, EXIT_STOPPED = 75, 76


_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME")
"""What the process gets to know: no secret is among it."""
_OF_BUCKET = ("HOME", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE")
"""And with a store in a bucket, with `AWS_*`: where boto3 looks for credentials and for the way there."""


@dataclass(frozen=True, slots=True)
class WholeStore:
    """What a check reads, no faster than so."""

    bytes_per_second: int


_KINDS: tuple[tuple[str, type[Any]], ...] = (
    ("marker", RepositoryTarget),
    ("lineage", SlipwayTarget),
    ("repo_id", RepositorySource),
    ("bytes_per_second", WholeStore),
    ("spool", UploadSource),
    ("root", DirectorySource),
)
"""By a field that none of those below has."""
_MODULES = {
    DirectorySource: "models_registry.processes.importer",
    RepositorySource: "models_registry.processes.fetcher",
    RepositoryTarget: "models_registry.processes.pusher",
    SlipwayTarget: "models_registry.processes.pusher",
    WholeStore: "models_registry.processes.checker",
    UploadSource: "models_registry.processes.receiver",
}


@dataclass(frozen=True, slots=True)
class Job:
    """`attempt` marks the result, so that one of an earlier try is never taken for it. `guardian_*`: see
    `guardian`.
    """

    store: str
    key: str
    attempt: int
    source: DirectorySource | RepositorySource | RepositoryTarget | SlipwayTarget | WholeStore | UploadSource
    guardian_pid: int
    guardian_started: float
    allowance: Allowance | None = None
    """What the version's team may add; None: whatever there is room for."""
    secret: str = field(default="", repr=False)
    """For the hub. It goes through a pipe: other people's processes can read a command line."""

    def as_json(self) -> str:
        """Without the secret."""
        return json.dumps({name: value for name, value in asdict(self).items() if name != "secret"})

    @classmethod
    def from_json(cls, text: str, *, secret: str = "") -> "Job":
        data = json.loads(text)
        source: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in data.pop("source").items()
        }
        kind = next(one for mark, one in _KINDS if mark in source)
        told = data.pop("allowance")
        allowance = Allowance(**told) if told else None
        return cls(source=kind(**source), allowance=allowance, secret=secret, **data)

    @property
    def module(self) -> str:
        """What `python -m` runs for it."""
        return _MODULES[type(self.source)]


def guardian() -> psutil.Process:
    """The process whose end means that this stack has ended: the leader of our process group.

    Workers of a pool come and go; the leader (Celery's main process, the sweeper, a shell's job) stays.
    """
    try:
        return psutil.Process(os.getpgrp())
    except psutil.NoSuchProcess:
        return psutil.Process()


def environment(store: str) -> dict[str, str]:
    """Of a process that reads what nobody trusts, and that may write into the store of this address."""
    known = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    if store.startswith(BUCKET):
        known |= {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
        known |= {name: os.environ[name] for name in _OF_BUCKET if name in os.environ}
    return known


_started: list[subprocess.Popen[bytes]] = []


def launch(job: Job, *, log: Path) -> None:
    """Start the process of a job; see `run_apart`."""
    argv = [sys.executable, "-m", job.module, job.as_json()]
    run_apart(argv, store=job.store, log=log, given=job.secret.encode())


def run_apart(argv: list[str], *, store: str, log: Path, given: bytes) -> None:
    """Start a process in a session of its own, with its stderr in `log` and `given` on its standard input.

    It does not wait for its end, and for its beginning only when `given` is more than a pipe takes: 64 KiB.
    """
    _started[:] = [process for process in _started if process.poll() is None]
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            argv,
            cwd=Path(__file__).resolve().parents[2],
            env=environment(store),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            start_new_session=True,
        )
    _started.append(process)
    assert process.stdin is not None  # noqa: S101
    with suppress(BrokenPipeError), process.stdin as pipe:
        pipe.write(given)


def main(arguments: list[str]) -> int:
    return work(Job.from_json(arguments[0]), import_job)


class Result(Protocol):
    def as_json(self) -> dict[str, Any]: ...


Work = Callable[[Job, Intake, Callable[[Any], None]], Result]
"""It reports dataclasses."""


def work(job: Job, do: Work) -> int:
    """Do a job inside its intake and note how it ends; the exit status of the process."""
    os.nice(10)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        with opened_at(job.store).intake(job.key) as intake:
            _note(intake, job, STARTED, {"pid": os.getpid(), "host": socket.gethostname()})
            threading.Thread(target=_watch, args=(job, intake), daemon=True).start()
            run(job, intake, do)
    except IntakeBusy:
        return EXIT_BUSY
    return 0


def import_job(job: Job, intake: Intake, report: Callable[[Progress], None]) -> ImportResult:
    assert isinstance(job.source, DirectorySource)  # noqa: S101
    return import_directory(job.source, intake, report=report, threads=THREADS, allowance=job.allowance)


def run(job: Job, intake: Intake, do: Work) -> None:
    def report(progress: Any) -> None:
        _note(intake, job, PROGRESS, asdict(progress))

    result: Result
    try:
        result = do(job, intake, report)
    except MemoryError:
        result = ImportResult(
            "failed", reason="A file needs more memory to be checked than an import may take."
        )
    _note(intake, job, RESULT, result.as_json())


def _note(intake: Intake, job: Job, name: str, content: dict[str, Any]) -> None:
    intake.write_note(name, json.dumps({"attempt": job.attempt, **content}).encode())


def _watch(job: Job, intake: Intake) -> None:
    """Ends the process from outside of whatever it is doing: a read from a dead file server never returns."""
    found = guardian_of(job)
    while not intake.is_unwanted() and found is not None and is_alive(found):
        time.sleep(LOOK_EVERY_SECONDS)
    intake.leave()
    os._exit(EXIT_STOPPED)


class Guarded(Protocol):
    @property
    def guardian_pid(self) -> int: ...

    @property
    def guardian_started(self) -> float: ...


def guardian_of(job: Guarded) -> psutil.Process | None:
    """The job's guardian, if it is still there and not another process that was given its number since.

    Start times are told by the wall clock, which may be set meanwhile; hence the tolerance.
    """
    try:
        process = psutil.Process(job.guardian_pid)
        is_same = abs(process.create_time() - job.guardian_started) < CLOCK_TOLERANCE_SECONDS
    except psutil.NoSuchProcess:
        return None
    return process if is_same else None


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
