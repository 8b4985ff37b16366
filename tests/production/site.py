"""An installation as docs/PRODUCTION.md has it: PostgreSQL, Redis, and a process for each role."""

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx2
import psycopg

from controlplane.environment import PROJECT
from tests.marked import MARK, living
from tests.postgres import PostgresServer
from tests.prepared import prepare_static
from tests.valkey import ValkeyServer

WITHIN_SECONDS = 180.0


def eventually(holds: Callable[[], Any], *, seconds: float = WITHIN_SECONDS) -> Any:
    """Return the first true result of `holds`. Waits long: nothing here says that anything is quick."""
    deadline = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s"
        time.sleep(0.05)
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Role:
    """A process of `slipway-server`, with its log."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self._log = log

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def says(self, words: str) -> "Role":
        """Waits until its log has the words; a role that ends before has failed."""

        def said() -> bool:
            assert self.process.poll() is None, self.log
            return words in self.log

        eventually(said)
        return self

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            return self.process.wait(timeout=WITHIN_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


class Host:
    """A machine of the site: a home of its own, and what runs on it."""

    def __init__(
        self, site: "Site", home: Path, settings: Mapping[str, str], *, code: Path = PROJECT
    ) -> None:
        self.site = site
        self.code = code
        self.home = home
        self.port = free_port()
        self.gateway_port, self.admin_port = free_port(), free_port()
        home.mkdir(parents=True, exist_ok=True)
        ours = ("SLIPWAY_", "DJANGO_")
        self.environment = {
            **{name: text for name, text in os.environ.items() if not name.startswith(ours)},
            **site.settings,
            MARK: site.mark,
            "SLIPWAY_HOME": str(home),
            "SLIPWAY_PORT": str(self.port),
            "SLIPWAY_GATEWAY_PORT": str(self.gateway_port),
            "SLIPWAY_GATEWAY_ADMIN_PORT": str(self.admin_port),
            **settings,
        }

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def token(self) -> str:
        return (self.home / "admin-token").read_text().strip()

    def twin(self, **settings: str) -> "Host":
        """Another of the same home, with other ports and settings."""
        return Host(self.site, self.home, settings)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A command of `slipway-server`, to its end."""
        return subprocess.run(
            [sys.executable, "-m", "controlplane.server", *arguments],
            cwd=self.code,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )

    def prepare(self) -> None:
        if not (self.home / "static").exists():
            prepare_static(self.home)
        done = self.run("prepare")
        assert done.returncode == 0, done.stderr

    def start(self, role: str, *options: str) -> Role:
        log = self.home / f"{role}-{secrets.token_hex(3)}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "controlplane.server", role, *options],
                cwd=self.code,
                env=self.environment,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        started = Role(process, log)
        self.site.roles.append(started)
        return started

    def web(self) -> Role:
        """Start a web process; return it once it answers."""
        role = self.start("web")

        def answers() -> bool:
            assert role.process.poll() is None, role.log
            try:
                return httpx2.get(f"{self.url}/healthz", timeout=5).status_code == 200
            except httpx2.TransportError:
                return False

        eventually(answers)
        return role


class Site:
    """PostgreSQL (or SQLite in the home of its only host) and Redis, and the settings that hosts share."""

    def __init__(
        self, home: Path, *, on_sqlite: bool = False, programs: Path | None = None, **settings: str
    ) -> None:
        """`programs`: of a PostgreSQL that is installed on this machine, in place of the tests' own."""
        self.home = home
        self.postgres = None if on_sqlite else PostgresServer(migrated=programs is None, programs=programs)
        self.valkey = ValkeyServer()
        self.valkey.start()
        self.roles: list[Role] = []
        self.mark = secrets.token_hex(8)
        self.settings = {
            **self._database(),
            "SLIPWAY_REDIS_URL": self.valkey.url,
            "SLIPWAY_SECRET_KEY": secrets.token_urlsafe(48),
            "SLIPWAY_AUDIT_KEY": secrets.token_urlsafe(48),
            **settings,
        }

    def _database(self) -> dict[str, str]:
        if self.postgres is None:
            return {"DJANGO_SETTINGS_MODULE": "controlplane.settings.embedded"}
        path = f"{self.postgres.programs}{os.pathsep}{os.environ['PATH']}"
        return {"SLIPWAY_DATABASE_URL": self.postgres.url, "PATH": path}

    def host(self, name: str = "host", *, code: Path = PROJECT, **settings: str) -> Host:
        """`code`: where it runs from."""
        return Host(self, self.home / name, settings, code=code)

    def connections(self) -> int:
        """Count the clients' connections to the database at this moment, ours left out."""
        with psycopg.connect(self.postgres.url) as connection:
            row = connection.execute(
                "SELECT count(*) FROM pg_stat_activity "
                "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            ).fetchone()
        return int(row[0]) if row else 0

    def close(self) -> None:
        for role in self.roles:
            role.stop(signal.SIGKILL)
        # What a node that was killed leaves running, so that another may take it over.
        for process in living(self.mark):
            process.kill()
        self.valkey.remove()
        if self.postgres is not None:
            self.postgres.stop()
