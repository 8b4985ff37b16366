"""Starting processes that outlive the task that starts them, and that know no secret of this installation."""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from models_registry.processes.job import Job
from models_registry.store import BUCKET

CODE = Path(__file__).resolve().parents[2]
_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME")
"""What the process gets to know: no secret is among it."""
_OF_BUCKET = ("HOME", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE")
"""And with a store in a bucket, with `AWS_*`: where boto3 looks for credentials and for the way there."""


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
            cwd=CODE,
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
