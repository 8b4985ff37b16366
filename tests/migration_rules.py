"""Whether migrations leave an installation at work: `python -m tests.migration_rules`.

The rules are those of docs/MIGRATIONS.md. Read from the operations, so that no database is needed; what makes
a new table is free, and so is what is done to a table that the same migration makes. Exit status 1 with a
line for each operation that breaks one.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings.test")

import django
from django.conf import settings
from django.db.migrations import operations
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.migration import Migration
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState
from django.db.models import NOT_PROVIDED, Field, ManyToManyField

from common.database.operations import AddIndexWithoutLock
from controlplane.environment import PROJECT
from tests.releases_of_git import git, last_release

UNUSED_SINCE = "unused_since"
"""Attribute of a migration that drops something: the release since which no code uses it."""
LOCKS_BECAUSE = "locks_because"
"""Attribute of a migration that holds a lock: why it does not matter."""
LOCKING = (
    operations.AddConstraint,
    operations.AlterUniqueTogether,
    operations.AlterIndexTogether,
    operations.AlterOrderWithRespectTo,
    operations.RunSQL,
)
RENAMING = (
    operations.RenameField,
    operations.RenameModel,
    operations.AlterModelTable,
)
DROPPING = (operations.RemoveField, operations.DeleteModel)


def faults(migration: Migration, before: ProjectState) -> Iterator[str]:
    """Why each operation that breaks a rule does, as sentences. `before`: the state it is applied to."""
    state = before.clone()
    made: set[str] = set()
    runs_python = [one for one in migration.operations if isinstance(one, operations.RunPython)]
    if runs_python and (migration.atomic or len(runs_python) < len(migration.operations)):
        yield (
            "RunPython: rows are changed in a migration of its own with `atomic = False`, some at a time, or "
            "the locks of its transaction last as long as the work"
        )
    for operation in migration.operations:
        fault = _fault(operation, state, migration, made)
        if fault:
            yield f"{operation.describe()}: {fault}"
        if isinstance(operation, operations.CreateModel):
            made.add(operation.name_lower)
        operation.state_forwards(migration.app_label, state)


def _fault(operation: Operation, state: ProjectState, migration: Migration, made: set[str]) -> str:
    """Empty: it breaks no rule."""
    table = getattr(operation, "model_name_lower", getattr(operation, "name_lower", ""))
    if isinstance(operation, operations.SeparateDatabaseAndState):
        inner = operation.database_operations
        return next((found for one in inner if (found := _fault(one, state, migration, made))), "")
    if isinstance(operation, RENAMING):
        return "the code that runs beside it goes on with the old name; add the new one, copy, drop later"
    if isinstance(operation, DROPPING):
        return "" if _was_unused(migration) else _DROPS
    if table in made:
        return ""
    if isinstance(operation, AddIndexWithoutLock):
        return "it wants `atomic = False`" if migration.atomic else ""
    if getattr(migration, LOCKS_BECAUSE, ""):
        return _of_column(operation, state, migration, may_lock=True)
    if isinstance(operation, operations.AddIndex):
        return "it keeps writers out; common.database.operations.AddIndexWithoutLock does not"
    if isinstance(operation, LOCKING):
        return f"it may hold a lock while it reads the whole table; say why that is short: `{LOCKS_BECAUSE}`"
    return _of_column(operation, state, migration, may_lock=False)


def _of_column(operation: Operation, state: ProjectState, migration: Migration, *, may_lock: bool) -> str:
    if isinstance(operation, operations.AddField):
        return _added(operation.field, may_lock=may_lock)
    if isinstance(operation, operations.AlterField):
        model = state.models[migration.app_label, operation.model_name_lower]
        return _altered(model.fields[operation.name], operation.field, may_lock=may_lock)
    return ""


def _added(field: Field, *, may_lock: bool) -> str:
    if isinstance(field, ManyToManyField):
        return ""
    if not field.null and field.db_default is NOT_PROVIDED:
        return "the code that runs beside it inserts rows without it: make it null, or give it a `db_default`"
    if _has_index(field) and not may_lock:
        return "its index keeps writers out: `db_index=False`, and AddIndexWithoutLock"
    return ""


def _altered(old: Field, new: Field, *, may_lock: bool) -> str:
    if old.null and not new.null:
        return "the code that runs beside it may still write null, and the whole table is read under a lock"
    if old.db_column != new.db_column:
        return "its column would be renamed"
    narrower = (old.max_length or 0) > (new.max_length or sys.maxsize)
    if (type(old) is not type(new) or narrower) and not may_lock:
        return f"another type rewrites the table: add a column, or say why it does not: `{LOCKS_BECAUSE}`"
    if _has_index(new) and not _has_index(old) and not may_lock:
        return "its index keeps writers out: `db_index=False`, and AddIndexWithoutLock"
    return ""


def _has_index(field: Field) -> bool:
    return bool(field.db_index or field.unique)


def _was_unused(migration: Migration) -> bool:
    """Since a release before this one."""
    said = getattr(migration, UNUSED_SINCE, "")
    return bool(said) and _numbers(said) < _numbers(settings.SLIPWAY_VERSION)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


_DROPS = (
    "the code that runs beside it still reads it. Stop using it in one release (SeparateDatabaseAndState), "
    f"drop it in a later one, and name the first: `{UNUSED_SINCE}`"
)


def all_faults() -> Iterator[str]:
    """Yield the faults of our migrations but the initial ones, which only make new tables."""
    loader = MigrationLoader(None)
    for key, migration in sorted(loader.disk_migrations.items()):
        if not _is_ours(migration) or migration.initial:
            continue
        for fault in faults(migration, loader.project_state(key, at_end=False)):
            yield f"{key[0]} {key[1]}: {fault}"


def edited_since_release(project: Path = PROJECT) -> list[str]:
    """The migrations of the last release that are not as installations have run them."""
    release = last_release(project)
    if not release:
        return []
    changed = git(project, "diff", "--name-only", "--diff-filter=a", release, "--", "*/migrations/*.py")
    return changed.split()


def main() -> int:
    django.setup()
    edited = "it was released and is never edited; add another migration"
    found = [*all_faults(), *(f"{path}: {edited}" for path in edited_since_release())]
    for fault in found:
        sys.stderr.write(f"{fault}. See docs/MIGRATIONS.md.\n")
    return 1 if found else 0


def _is_ours(migration: Migration) -> bool:
    from django.apps import apps

    path = apps.get_app_config(migration.app_label).path
    return os.path.commonpath([path, settings.BASE_DIR]) == str(settings.BASE_DIR) and ".venv" not in path


if __name__ == "__main__":
    raise SystemExit(main())
