"""The database under a backup: one state of it in a file, and a file made a database again.

Until `finish` a database that is being restored has no migration on record, so that no role starts on it.
"""

import re
import shutil
import sqlite3
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import ClassVar, Literal

from django.conf import settings
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from common.audit.append_only import FUNCTION
from controlplane.backup.errors import BackupError
from controlplane.backup.postgres_programs import PostgresProgram, program
from controlplane.embedded.home import Home, HomeUnusable
from controlplane.embedded.lock import HomeLock

MIGRATIONS = MigrationRecorder.Migration._meta.db_table


class Database(ABC):
    vendor: ClassVar[Literal["sqlite", "postgresql"]]
    file: ClassVar[str]
    tool_version = 0

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Read everything within as of one moment, `dump` too; nobody who writes has to wait."""
        with connection.cursor() as cursor:
            cursor.execute(self._begin)
            try:
                yield
            finally:
                cursor.execute("ROLLBACK")

    _begin: ClassVar[str]

    @abstractmethod
    def check_tools(self) -> None:
        """Check that what is needed is installed. Raises BackupError."""

    @abstractmethod
    def dump(self, path: Path) -> None:
        """Within `snapshot`. Raises BackupError."""

    @contextmanager
    @abstractmethod
    def alone(self) -> Iterator[None]:
        """While nobody else uses it. Raises BackupError."""

    def is_empty(self) -> bool:
        """Or holds what an interrupted restore has left."""
        tables = connection.introspection.table_names()
        if MIGRATIONS not in tables:
            return not tables
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT count(*) FROM {MIGRATIONS}")  # noqa: S608  # a name of Django's
            return not cursor.fetchone()[0]

    @abstractmethod
    def load(self, path: Path, *, tool_version: int) -> None:
        """Replace what it holds, all but the record of its migrations. Raises BackupError."""

    @abstractmethod
    def leap(self, table: str, column: str) -> None:
        """Numbers that it gives out from now on lie beyond those that the lost time may have seen."""


LEAP = 10_000


class Sqlite(Database):
    vendor = "sqlite"
    file = "database.sqlite3"
    # Without IMMEDIATE, which Django would have begun with: a reader holds nobody up.
    _begin = "BEGIN DEFERRED"

    @property
    def _path(self) -> Path:
        return Path(settings.DATABASES["default"]["NAME"])

    def check_tools(self) -> None:
        """Check nothing: SQLite needs no tools."""

    def dump(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        with closing(sqlite3.connect(path)) as copy:
            connection.connection.backup(copy)
        path.chmod(0o600)

    @contextmanager
    def alone(self) -> Iterator[None]:
        home = Home(settings.SLIPWAY_HOME)
        try:
            home.make()
            HomeLock(home).take("restore")
        except HomeUnusable as refusal:
            raise BackupError(str(refusal)) from None
        yield

    def load(self, path: Path, *, tool_version: int) -> None:
        connection.close()
        fresh = self._path.with_name(f".{self._path.name}.restored")
        shutil.copyfile(path, fresh)
        fresh.chmod(0o600)
        with closing(sqlite3.connect(fresh, isolation_level=None)) as copy:
            copy.execute(f"DELETE FROM {MIGRATIONS}")  # noqa: S608  # a name of Django's
            copy.execute("PRAGMA journal_mode=DELETE")
        for suffix in ("", "-wal", "-shm"):
            if (former := self._path.with_name(self._path.name + suffix)).exists():
                former.rename(former.with_name(former.name + ".before-restore"))
        fresh.rename(self._path)

    def leap(self, table: str, column: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute("UPDATE sqlite_sequence SET seq = seq * 2 + %s WHERE name = %s", [LEAP, table])
            if not cursor.rowcount:
                cursor.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (%s, %s)", [table, LEAP])


class Postgres(Database):
    vendor = "postgresql"
    file = "database.dump"
    _begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

    def __init__(self) -> None:
        self._dump: PostgresProgram | None = None

    @property
    def _server_version(self) -> int:
        return int(connection.connection.info.server_version) // 10_000

    def check_tools(self) -> None:
        connection.ensure_connection()
        self._dump = program("pg_dump", at_least=self._server_version)
        self.tool_version = self._dump.version

    def dump(self, path: Path) -> None:
        assert self._dump is not None  # noqa: S101  (`check_tools` comes first)
        with connection.cursor() as cursor:
            cursor.execute("SET idle_in_transaction_session_timeout = 0")
            cursor.execute("SELECT pg_export_snapshot()")
            snapshot = cursor.fetchone()[0]
        path.touch(mode=0o600)
        self._dump.run(
            *self._dump.of_database(), "--format=custom", "--no-owner", "--no-privileges",
            f"--snapshot={snapshot}", "--file", path,
        )  # fmt: skip

    @contextmanager
    def alone(self) -> Iterator[None]:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
                "AND pid <> pg_backend_pid() AND coalesce(backend_type, 'client backend') = 'client backend'"
            )
            others = cursor.fetchone()[0]
        if others:
            raise BackupError(
                f"The database has {others} other connections. Stop web, worker and sweeper on every "
                "machine, and whatever else uses it."
            )
        yield

    def load(self, path: Path, *, tool_version: int) -> None:
        restore = program("pg_restore", at_least=max(tool_version, 1))
        with connection.cursor() as cursor:
            if tables := connection.introspection.table_names(cursor):
                names = ", ".join(map(connection.ops.quote_name, tables))
                cursor.execute(f"DROP TABLE {names} CASCADE")
            cursor.execute(f"DROP FUNCTION IF EXISTS {FUNCTION}() CASCADE")
        with tempfile.NamedTemporaryFile("w", prefix="slipway-restore-") as chosen:
            contents = restore.run("--list", path)
            left_out = re.compile(rf" TABLE DATA \S+ {MIGRATIONS} ")
            chosen.writelines(line for line in contents.splitlines(True) if not left_out.search(line))
            chosen.flush()
            restore.run(
                *restore.of_database(), "--no-owner", "--no-privileges", "--single-transaction",
                "--use-list", chosen.name, path,
            )  # fmt: skip

    def leap(self, table: str, column: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_get_serial_sequence(%s, %s)", [f'"{table}"', column])
            if sequence := cursor.fetchone()[0]:
                cursor.execute(
                    f"SELECT setval(%s, (SELECT last_value FROM {sequence}) * 2 + %s)",  # noqa: S608  # its name
                    [sequence, LEAP],
                )


def database() -> Database:
    return Postgres() if connection.vendor == "postgresql" else Sqlite()
