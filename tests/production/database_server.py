"""PostgreSQL of a distribution with its own settings, on a machine of its own as far as commands see."""

import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, LiteralString

import psycopg

from tests.postgres import INSTALLED
from tests.production.site import Site, free_port

"""Debian's and Ubuntu's."""
SYSTEMCTL = """#!/bin/sh
case $1 in
restart|stop) pg_ctl stop -D "$PGDATA" -m fast -w >/dev/null ;;
esac
case $1 in
restart|start) pg_ctl start -D "$PGDATA" -w -l "$PGDATA.log" -o "-p $PGPORT -k $PGDATA/.." >/dev/null ;;
esac
"""


class DatabaseServer:
    """A machine with PostgreSQL of a distribution, on which somebody types what the page says."""

    def __init__(self) -> None:
        # Not below pytest's own directory, which no other user may enter.
        self.root = root = Path(tempfile.mkdtemp(prefix="slipway-database-server-"))
        (root / "bin").mkdir()
        (root / "bin/systemctl").write_text(SYSTEMCTL)
        (root / "bin/systemctl").chmod(0o755)
        (root / "backups/wal").mkdir(parents=True)
        self.port = free_port()
        self._user: dict[str, Any] = {}
        if os.geteuid() == 0:
            postgres = pwd.getpwnam("postgres")
            self._user = {"user": postgres.pw_uid, "group": postgres.pw_gid, "extra_groups": []}
            for path in (root, *root.rglob("*")):
                os.chown(path, postgres.pw_uid, postgres.pw_gid)
        self.sh("initdb -D $PGDATA -U slipway --auth=trust --no-sync && systemctl start && createdb slipway")
        self.url = f"postgresql://slipway@127.0.0.1:{self.port}/slipway"

    def sh(self, script: str) -> str:
        programs = [str(self.root / "bin"), str(INSTALLED[-1]), os.environ["PATH"]]
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script.replace("/backups", f"{self.root}/backups")],
            cwd=self.root,
            env={
                "PATH": os.pathsep.join(programs),
                "LANG": "C.UTF-8",
                "PGDATA": f"{self.root}/data",
                "PGHOST": "127.0.0.1",
                "PGPORT": str(self.port),
                "PGUSER": "slipway",
                "PGDATABASE": "postgres",
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
            **self._user,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout[-2_000:]}{done.stderr[-4_000:]}"
        return done.stdout.strip()

    def sql(self, query: LiteralString, *values: object) -> Any:
        """The first column of its first row, where it has rows."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(query, values)
            row = cursor.fetchone() if cursor.description else None
        return row[0] if row else None

    def site(self, home: Path) -> Site:
        """A site whose database this is."""
        made = Site(home, on_sqlite=True, SLIPWAY_DATABASE_CONNECTIONS="12")
        del made.settings["DJANGO_SETTINGS_MODULE"]
        made.settings |= {"SLIPWAY_DATABASE_URL": self.url}
        return made

    def stop(self) -> None:
        self.sh("systemctl stop")
        shutil.rmtree(self.root)
