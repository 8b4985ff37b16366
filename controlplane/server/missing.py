"""What a role cannot do without, looked at before it starts; each is told in a line saying what to do."""

from collections.abc import Callable
from pathlib import Path

from controlplane.env import refuse
from controlplane.garbage import set_up_django

PREPARE = "Run `slipway-server prepare` first."


def refuse_if(*missing: Callable[[], str]) -> None:
    """Exit status 2 with the line of each thing that is missing; a database that is away is waited for."""
    set_up_django()
    if lines := [line for look in missing if (line := look())]:
        raise refuse(*lines)


def missing_static_files() -> str:
    from django.conf import settings

    from controlplane.server.preparation import COLLECTED

    if (Path(settings.STATIC_ROOT) / COLLECTED).exists():
        return ""
    return f"There are no static files in {settings.STATIC_ROOT}: pages would have no style. {PREPARE}"


def store_not_shared() -> str:
    from django.db import DatabaseError, connection

    from model_store.sharing import why_not_shared

    try:
        return why_not_shared()
    except DatabaseError:
        return ""  # The database is away, or not prepared: that is told elsewhere.
    finally:
        connection.close()


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
