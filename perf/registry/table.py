"""What the measurements share: a line of a table, a clock, and a database of their own."""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MEBIBYTE = 1024 * 1024


def line(what: str, measured: str, limit: str, *, holds: bool | None = None) -> None:
    verdict = {True: "ok", False: "MISSED", None: ""}[holds]
    print(f"{what:<58} {measured:>22}   {limit:<24} {verdict}", flush=True)


def heading(text: str) -> None:
    """Print a heading with the load of the machine, on which every figure below it depends."""
    load = ", ".join(f"{one:.2f}" for one in os.getloadavg())
    print(f"\n{text}\n  {os.cpu_count()} cores, load {load}\n", flush=True)


def timed(work: Callable[[], object]) -> float:
    """Seconds."""
    began = time.monotonic()
    work()
    return time.monotonic() - began


@contextmanager
def directory() -> Iterator[Path]:
    """An empty one, gone afterwards; `SLIPWAY_PERF_DIR` says on which disk."""
    home = Path(tempfile.mkdtemp(prefix="slipway-perf-", dir=os.environ.get("SLIPWAY_PERF_DIR")))
    try:
        yield home
    finally:
        shutil.rmtree(home)


@contextmanager
def database() -> Iterator[None]:
    """Django over a home of its own; once in a process."""
    with directory() as home, database_in(str(home)):
        yield


@contextmanager
def database_in(home: str) -> Iterator[None]:
    """Django over that home; once in a process."""
    os.environ["SLIPWAY_HOME"] = home
    os.environ["SLIPWAY_LOG_LEVEL"] = "ERROR"
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings.test")
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    yield
