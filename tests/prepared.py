"""pytest plugin: what a preparation takes ten seconds for is made once in a run: a migrated database, on
SQLite and on PostgreSQL, and the static files. Who needs one gets a copy.
"""

import atexit
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PLACE = "SLIPWAY_TEST_PREPARED"
"""Set by the first pytest process for its xdist workers: the directory that they share."""
PROJECT = Path(__file__).resolve().parents[1]
MIGRATE = """
from controlplane.garbage import set_up_django
set_up_django()
from controlplane.server.preparation import migrate
migrate()
# What SQLite has written lies beside the database until the last one closes it.
from django.db import connections
connections.close_all()
"""
COLLECT = """
from pathlib import Path
from django.conf import settings
from common.languages import compile_catalogues
from controlplane.server.preparation import collect_static
compile_catalogues(Path(*settings.LOCALE_PATHS))
collect_static(Path(settings.STATIC_ROOT))
"""


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if PLACE not in os.environ:
        place = tempfile.TemporaryDirectory(prefix="slipway-prepared-")
        config.add_cleanup(place.cleanup)
        os.environ[PLACE] = place.name


def prepare_home(home: Path) -> None:
    """Prepare a home as the embedded stack does, but for its people and its secrets."""
    prepare_static(home)
    shutil.copy2(_home() / "db.sqlite3", home)


def prepare_static(home: Path) -> None:
    """Its static files and catalogues alone."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    for part in ("static", "locale"):
        shutil.copytree(_home() / part, home / part, dirs_exist_ok=True)


def _home() -> Path:
    return _once("home", lambda into: run(MIGRATE + COLLECT, SLIPWAY_HOME=str(into)))


def migrated(make: Callable[[Path], None]) -> Path:
    """The directory of a PostgreSQL that `make` has made in it, started, migrated and stopped."""
    return _once("postgres", make)


def run(code: str, **settings: str) -> None:
    environ = {
        name: text for name, text in os.environ.items() if not name.startswith(("SLIPWAY_", "DJANGO_"))
    }
    environ |= {"DJANGO_SETTINGS_MODULE": "controlplane.settings.embedded", **settings}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=PROJECT, env=environ, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"Nothing could be prepared:\n{done.stderr}")


def _place() -> Path:
    """Outside of pytest, as in `perf/`, one of this process."""
    if PLACE not in os.environ:
        made = tempfile.TemporaryDirectory(prefix="slipway-prepared-")
        atexit.register(made.cleanup)
        os.environ[PLACE] = made.name
    return Path(os.environ[PLACE])


def _once(name: str, make: Callable[[Path], None]) -> Path:
    place = _place()
    with _alone(place / f"{name}.lock"):
        if not (place / name).exists():
            unfinished = Path(tempfile.mkdtemp(dir=place))
            make(unfinished)
            unfinished.rename(place / name)
    return place / name


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
