"""The rules that leave an installation at work while it is upgraded: what breaks one is told."""

import subprocess
from collections.abc import Sequence

import pytest
from django.apps import apps
from django.conf import settings
from django.db import connection, migrations, models
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState
from django.test import override_settings

from common.database.operations import AddIndexWithoutLock
from tests.migration_rules import all_faults, edited_since_release, faults
from tests.releases_of_git import last_release

INDEX = models.Index(fields=["seq"], name="by_seq")
UNIQUE = models.UniqueConstraint(fields=["seq"], name="once")


def said(*operations: Operation, **attributes: object) -> list[str]:
    migration = type("Migration", (migrations.Migration,), {"operations": list(operations), **attributes})
    return list(faults(migration("0002_next", "common"), ProjectState.from_apps(apps)))


def add(field: models.Field) -> Operation:
    return migrations.AddField("AuditHead", "fresh", field)


def alter(name: str, field: models.Field) -> Operation:
    return migrations.AlterField("Restoration", name, field)


@pytest.mark.parametrize(
    ("operations", "words"),
    [
        ([add(models.IntegerField(default=0))], "db_default"),
        ([add(models.IntegerField(null=True, db_index=True))], "AddIndexWithoutLock"),
        ([alter("name", models.CharField(max_length=50))], "rewrites"),
        ([alter("name", models.TextField(unique=True))], "rewrites"),
        ([alter("name", models.CharField(max_length=100, db_index=True))], "AddIndexWithoutLock"),
        ([migrations.AddIndex("AuditHead", INDEX)], "AddIndexWithoutLock"),
        ([AddIndexWithoutLock("AuditHead", INDEX)], "atomic = False"),
        ([migrations.AddConstraint("AuditHead", UNIQUE)], "locks_because"),
        ([migrations.RunSQL("SELECT 1")], "locks_because"),
        ([migrations.RenameField("AuditHead", "seq", "number")], "old name"),
        ([migrations.RenameModel("AuditHead", "Tip")], "old name"),
        ([migrations.RemoveField("AuditHead", "seq")], "unused_since"),
        ([migrations.DeleteModel("Restoration")], "unused_since"),
        ([migrations.RunPython(migrations.RunPython.noop)], "a migration of its own"),
    ],
)
def test_what_would_stop_the_code_that_runs_beside_it_is_told(operations: Sequence[Operation], words: str):
    (fault,) = said(*operations)
    assert words in fault


def test_what_leaves_it_at_work_is_free():
    assert not said(
        add(models.IntegerField(null=True)),
        migrations.AddField("AuditHead", "other", models.IntegerField(db_default=0)),
        alter("name", models.CharField(max_length=200)),
        migrations.CreateModel("Fresh", [("id", models.BigAutoField(primary_key=True))]),
        migrations.AddField("Fresh", "seq", models.IntegerField(default=0)),
        migrations.AddIndex("Fresh", INDEX),
    )
    assert not said(AddIndexWithoutLock("AuditHead", INDEX), atomic=False)
    assert not said(migrations.RunPython(migrations.RunPython.noop), atomic=False)
    assert not said(migrations.AddConstraint("AuditHead", UNIQUE), locks_because="It has one row.")


def test_what_was_unused_since_an_earlier_release_may_go():
    drop = migrations.RemoveField("AuditHead", "seq")
    assert not said(drop, unused_since="0.1.9")
    assert said(drop, unused_since=settings.SLIPWAY_VERSION)


def test_a_real_migration_of_a_next_release_is_free():
    package = "tests.production.next_release.releases_migrations"
    with override_settings(MIGRATION_MODULES={"releases": package}):
        assert list(all_faults()) == []
        loader = MigrationLoader(None)
        assert ("releases", "0002_urgency") in loader.disk_migrations


def test_a_migration_that_was_released_is_not_edited(tmp_path):
    def git(*arguments: str) -> None:
        who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
        subprocess.run(["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True, timeout=30)

    directory = tmp_path / "parcels" / "migrations"
    directory.mkdir(parents=True)
    (directory / "0001_initial.py").write_text("operations = []\n")
    git("init")
    git("add", ".")
    git("commit", "-m", "first")
    assert (last_release(tmp_path), edited_since_release(tmp_path)) == ("", [])
    git("tag", "v0.2.0")
    (directory / "0002_more.py").write_text("operations = []\n")
    assert (last_release(tmp_path), edited_since_release(tmp_path)) == ("v0.2.0", [])
    (directory / "0001_initial.py").write_text("operations = [1]\n")
    assert edited_since_release(tmp_path) == ["parcels/migrations/0001_initial.py"]


@pytest.mark.django_db(transaction=True)
def test_an_index_is_made_and_made_anew_where_a_try_was_interrupted():
    before = ProjectState.from_apps(apps)
    after = before.clone()
    operation = AddIndexWithoutLock("AuditHead", INDEX)
    operation.state_forwards("common", after)

    def names() -> set[str]:
        with connection.cursor() as cursor:
            return set(connection.introspection.get_constraints(cursor, "common_audithead"))

    tries = 2 if connection.vendor == "postgresql" else 1
    for _ in range(tries):
        with connection.schema_editor(atomic=False) as editor:
            operation.database_forwards("common", editor, before, after)
    assert "by_seq" in names()
    with connection.schema_editor(atomic=False) as editor:
        operation.database_backwards("common", editor, after, before)
    assert "by_seq" not in names()
