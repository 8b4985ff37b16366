"""`slipway serve APP.py`: a service on this machine, as a worker runs it behind the gateway."""

import contextlib
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from serving.worker_command import EXIT_PORT_TAKEN, WorkerCommand, default_environments
from slipway.exits import CommandFailed, Exit

app = typer.Typer(add_completion=False)
STOP_WITHIN_SECONDS = 15.0


@app.command(name="serve", help="Serves an app on this machine: its routes, a page to try them, /metrics.")
def serve(
    file: Annotated[Path, typer.Argument(help="Python file with a serve.App.")],
    port: Annotated[int, typer.Option(help="Port to listen on.", min=0, max=65_535)] = 8_100,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    processes: Annotated[int, typer.Option(help="CPU processes; 0: as the app says.", min=0, max=512)] = 0,
    reload: Annotated[
        bool, typer.Option("--reload", help="Starts anew when a file beside it changes.")
    ] = False,
) -> None:
    if not file.is_file():
        raise CommandFailed(f"There is no file {file}.", Exit.USAGE)
    name = re.sub(r"[^A-Za-z0-9._-]", "-", file.stem).lstrip("._-") or "app"
    command = WorkerCommand(
        model_dir=file.resolve().parent,
        name="laptop",
        deployment="laptop",
        service=name,
        version_label=f"{name}:local",
        engine="app",
        host=host,
        port=port,
        settings={"file": file.name, "processes": processes},
        settle_seconds=0.0,
        linger_seconds=0.0,
        environments=default_environments(),
        exit_with_parent=True,
    )
    sys.stderr.write(f"slipway: http://{host}:{port}/ serves {file}; Ctrl-C stops it.\n")
    if not reload:
        sys.exit(_exit_of(_run(command)))
    # One watcher for all, so that no change falls between two of them.
    from watchfiles import PythonFilter, watch

    changes = watch(command.model_dir, watch_filter=PythonFilter(), raise_interrupt=False)
    while True:
        with _running(command):
            if next(changes, None) is None:
                return


def _exit_of(status: int) -> int:
    if status == EXIT_PORT_TAKEN:
        raise CommandFailed("Its port is taken; name another one with --port.", Exit.USAGE)
    return Exit.DONE if status == 0 else Exit.FAILED


def _run(command: WorkerCommand) -> int:
    with subprocess.Popen(command.argv()) as worker:
        while True:
            try:
                return worker.wait()
            except KeyboardInterrupt:
                # The terminal has told the worker as well: it drains.
                continue


@contextlib.contextmanager
def _running(command: WorkerCommand) -> Iterator[None]:
    """A worker while the block runs."""
    worker = subprocess.Popen(command.argv())
    try:
        yield
    finally:
        worker.send_signal(signal.SIGTERM)
        try:
            worker.wait(STOP_WITHIN_SECONDS)
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()
