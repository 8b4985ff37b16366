"""`prepare` beside an installation at work."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import connection

from accounts.models import AuditOutput
from common.errors import Unavailable
from controlplane.environment import PROJECT
from controlplane.server import preparation
from tests.postgres import SERVER


@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif(not os.environ.get(SERVER), reason="SQLite has one writer at a time anyway")
def test_a_migration_waits_for_no_table_for_long_and_is_tried_again(monkeypatch, capsys):
    """A migration that waits would hold up everybody behind it."""
    holder = psycopg.connect(**connection.get_connection_params() | {"cursor_factory": None})
    holder.execute("LOCK TABLE common_restoration IN ACCESS SHARE MODE")

    def migrate(*_: object, **__: object) -> None:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE common_restoration ALTER COLUMN name SET DEFAULT ''")

    monkeypatch.setattr(preparation, "call_command", migrate)
    monkeypatch.setattr(preparation, "LOCK_PATIENCE", "50ms")
    monkeypatch.setattr(preparation, "MIGRATE_TRIES", 2)
    monkeypatch.setattr(preparation.time, "sleep", lambda _: None)
    with pytest.raises(Unavailable, match=f"that of process {holder.info.backend_pid} "):
        preparation.migrate()
    assert "in use" in capsys.readouterr().out
    monkeypatch.setattr(preparation.time, "sleep", lambda _: holder.close())
    preparation.migrate()
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE common_restoration ALTER COLUMN name DROP DEFAULT")
        cursor.execute("SHOW lock_timeout")
        assert cursor.fetchone() == ("0",)


def test_the_files_of_a_home_are_prepared_without_a_database(tmp_path: Path) -> None:
    environ = os.environ | {
        "DJANGO_SETTINGS_MODULE": "controlplane.settings.production",
        "SLIPWAY_HOME": str(tmp_path / "home"),
        "SLIPWAY_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/nothing",
        "SLIPWAY_REDIS_URL": "redis://127.0.0.1:1/0",
        "SLIPWAY_SECRET_KEY": "s" * 40,
        "SLIPWAY_AUDIT_KEY": "a" * 40,
    }
    command = [sys.executable, "-m", "controlplane.server", "prepare", "--only", "files"]
    subprocess.run(command, cwd=PROJECT, env=environ, check=True, timeout=120)
    assert (tmp_path / "home" / "static" / preparation.COLLECTED).exists()
    assert list((tmp_path / "home" / "locale").glob("*/LC_MESSAGES/django.mo"))


@pytest.mark.django_db(transaction=True)
def test_who_prepares_the_database_for_others_names_no_output_of_a_host_that_goes(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparation, "migrate", lambda: None)
    settings.SLIPWAY_AUDIT_OUTPUTS = ["syslog+tcp://log.example", "file:///var/log/audit.jsonl"]
    preparation.prepare_database()
    assert list(AuditOutput.objects.values_list("place", "host")) == [("syslog+tcp://log.example", "")]
