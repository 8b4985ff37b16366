"""What a role cannot do without, looked at before it starts; each is told in a line that says what to do."""

from collections.abc import Callable
from pathlib import Path

from controlplane.env import refuse

PREPARE = "Run `slipway-server prepare` first."


def refuse_without(*names: str) -> None:
    """Exit status 2 with a line per missing thing. A database that is away is none: roles wait for it."""
    import django

    django.setup()
    if lines := [line for name in names if (line := _LOOKS[name]())]:
        raise refuse(*lines)


def missing_static_files() -> str:
    from django.conf import settings

    from controlplane.server.preparation import COLLECTED

    if (Path(settings.STATIC_ROOT) / COLLECTED).exists():
        return ""
    return f"There are no static files in {settings.STATIC_ROOT}: pages would have no style. {PREPARE}"


def missing_migrations() -> str:
    from django.db import DatabaseError, connection
    from django.db.migrations.executor import MigrationExecutor

    try:
        executor = MigrationExecutor(connection)
        plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except DatabaseError:
        return ""
    finally:
        connection.close()
    if not plan:
        return ""
    names = ", ".join(f"{migration.app_label} {migration.name}" for migration, _ in plan[:3])
    more = f" and {len(plan) - 3} more" if len(plan) > 3 else ""
    return f"The database is older than this code, it lacks {names}{more}. {PREPARE}"


_LOOKS: dict[str, Callable[[], str]] = {"static": missing_static_files, "migrations": missing_migrations}
