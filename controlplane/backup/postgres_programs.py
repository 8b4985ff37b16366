"""`pg_dump` and `pg_restore`: which of those that are installed can be used, and how they are run."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from django.db import connection
from psycopg import pq
from psycopg.conninfo import make_conninfo

from controlplane.backup.errors import BackupError

PLACES = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql@*/bin")
"""Where packages of several versions put them, beside those on the PATH."""
_NOT_PASSED_ON = {"password", "sslpassword", "hostaddr"}
_WRAPPER = "pg_wrapper"
"""Debian's, which runs the programs of its own cluster's version: they are found where they lie."""
_VERSION = re.compile(r"\(PostgreSQL\) (\d+)")


class PostgresProgram:
    def __init__(self, path: Path, version: int) -> None:
        self.path = path
        self.version = version
        """Major."""

    def run(self, *arguments: str | Path) -> str:
        """Return the program's output. Raises BackupError with its last line of complaint."""
        info = connection.connection.info
        done = subprocess.run(
            [self.path, *arguments],
            env={**os.environ, "PGPASSWORD": info.password, "LC_ALL": "C"},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            said = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
            raise BackupError(f"{self.path}: {said[0]}")
        return done.stdout

    @staticmethod
    def of_database() -> tuple[str, ...]:
        """Arguments that name our database: the server that we are connected to, and the URL's own options.

        No default of our own libpq is passed on, which an older program may not know, and no password.
        """
        info = connection.connection.info
        known = {option.keyword.decode() for option in pq.Conninfo.get_defaults()} - _NOT_PASSED_ON
        own = {name: value for name, value in connection.settings_dict["OPTIONS"].items() if name in known}
        own |= {"host": info.host, "port": info.port, "user": info.user, "dbname": info.dbname}
        return ("--dbname", make_conninfo(**own))


def program(name: str, *, at_least: int) -> PostgresProgram:
    """The oldest that is new enough: what it writes, the most servers read. Raises BackupError."""
    found = sorted(_installed(name), key=lambda one: one.version)
    good = [one for one in found if one.version >= at_least]
    if good:
        return good[0]
    seen = ", ".join(f"{one.path} is of version {one.version}" for one in found) or "none was found"
    raise BackupError(
        f"{name} of PostgreSQL {at_least} or newer is needed; {seen}. Install the client programs of "
        f"PostgreSQL {at_least} (Debian: postgresql-client-{at_least}), or put their directory on the PATH."
    )


def _installed(name: str) -> Iterator[PostgresProgram]:
    places = [path for pattern in PLACES for path in _directories(pattern)]
    seen: set[Path] = set()
    for found in (shutil.which(name), *(shutil.which(name, path=str(path)) for path in places)):
        if found is None:
            continue
        path = Path(found)
        if path.resolve() in seen or path.resolve().name == _WRAPPER:
            continue
        seen.add(path.resolve())
        if version := _version(path):
            yield PostgresProgram(path, version)


def _directories(pattern: str) -> Sequence[Path]:
    return sorted(Path("/").glob(pattern.removeprefix("/")))


def _version(path: Path) -> int:
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = _VERSION.search(done.stdout)
    return int(match[1]) if match else 0
