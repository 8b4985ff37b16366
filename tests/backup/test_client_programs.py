"""`pg_dump` and `pg_restore` as distributions ship them: older than the libpq that psycopg brings."""

import os
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from controlplane.backup import postgres_programs
from controlplane.backup.postgres_programs import PostgresProgram
from tests.postgres import INSTALLED
from tests.production.site import Site

NONE_INSTALLED = "no PostgreSQL of a distribution is installed (Debian: postgresql)"


class Connection:
    """A connection as psycopg describes it, to the second server of two."""

    class info:
        host, port, user, dbname, password = "db2", 5433, "slipway", "slipway", "secret"
        dsn = "host=db1,db2 sslmode=verify-full sslcertmode=allow"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {}),
        (
            {"sslmode": "verify-full", "sslrootcert": "/ca.pem", "pool": {}, "sslpassword": "hidden"},
            {"sslmode": "verify-full", "sslrootcert": "/ca.pem"},
        ),
        ({"hostaddr": "10.0.0.1,10.0.0.2", "options": "-c x=y z"}, {"options": "-c x=y z"}),
    ],
)
def test_a_program_gets_the_server_and_the_url_s_own_options_alone(monkeypatch, options, expected):
    class Django:
        connection = Connection
        settings_dict = {"OPTIONS": options}

    monkeypatch.setattr(postgres_programs, "connection", Django)
    flag, text = PostgresProgram.of_database()
    assert flag == "--dbname"
    server = {"host": "db2", "port": "5433", "user": "slipway", "dbname": "slipway"}
    assert conninfo_to_dict(text) == server | expected


def test_debian_s_wrapper_is_passed_over_for_the_program_itself(monkeypatch, tmp_path):
    wrapper = tmp_path / "pg_wrapper"
    wrapper.write_text("#!/bin/sh\necho 'pg_dump (PostgreSQL) 99.1'\n")
    wrapper.chmod(0o755)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "pg_dump").symlink_to(wrapper)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert all(one.version != 99 for one in postgres_programs._installed("pg_dump"))


@pytest.fixture(scope="module", params=INSTALLED or [None])
def site(request, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    if request.param is None:
        pytest.skip(NONE_INSTALLED)
    made = Site(tmp_path_factory.mktemp("site"), programs=request.param)
    yield made
    made.close()


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_distribution_s_programs_back_up_and_restore(site: Site, tmp_path: Path):
    host = site.host()
    # What the wheel brings is not on the path of a machine in production.
    host.environment["PATH"] = f"{site.postgres.programs}{os.pathsep}/usr/bin{os.pathsep}/bin"
    host.prepare()
    done = host.run("backup", str(tmp_path / "backups"))
    assert done.returncode == 0, done.stderr
    site.postgres.empty()
    restored = host.run("restore", str(tmp_path / "backups"))
    assert restored.returncode == 0, restored.stderr
    with psycopg.connect(site.postgres.url) as database, pytest.raises(psycopg.Error, match="append-only"):
        database.execute("DELETE FROM common_auditrecord")
