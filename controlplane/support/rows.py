"""What the database tells of an installation in trouble."""

from collections.abc import Mapping
from typing import Any

from django.apps import apps
from django.db import connection, models
from django.db.migrations.executor import MigrationExecutor
from django.forms.models import model_to_dict

from common import clock
from common.models import Intent, Pulse
from common.reconcile import Reconciled, kernel
from common.reconcile.backlog import OVERDUE_AFTER, backlogs
from common.reconcile.trouble import troubled

MOST_ROWS = 50
"""Of each kind."""
MOST_INTENTS = 20
"""Of each row, the latest."""
SHOWN_COLUMNS = (
    *("state", "next_at", "lane", "lease_until", "fence", "turn", "wakes", "attempts"),
    *("failed_since", "last_error", "stuck_at", "origin"),
)


def summary() -> Mapping[str, Any]:
    """Return how much waits, by kind, and who takes it."""
    return {
        "backlog": {kind: vars_of(one) for kind, one in backlogs().items()},
        "takers": [model_to_dict(row) | {"at": row.at, "name": row.name} for row in Pulse.objects.all()],
    }


def vars_of(one: Any) -> dict[str, Any]:
    return {name: getattr(one, name) for name in one.__slots__}


def in_trouble() -> list[dict[str, Any]]:
    """Rows that are stuck, fail, or are late, with the end of their journal."""
    found = {(one.kind, one.id) for one in troubled(limit=MOST_ROWS)}
    late = clock.now() - OVERDUE_AFTER
    for kind in kernel.kinds:
        rows = kernel.reconciler(kind).model._default_manager
        overdue = rows.filter(next_at__lte=late, lease_until__lte=late, stuck_at=None).order_by("next_at")
        found |= {(kind, pk) for pk in overdue.values_list("pk", flat=True)[:MOST_ROWS]}
    return [_told(kind, pk) for kind, pk in sorted(found)]


def _told(kind: str, pk: int) -> dict[str, Any]:
    row: Reconciled | None = kernel.reconciler(kind).model._default_manager.filter(pk=pk).first()
    shown = {name: getattr(row, name) for name in SHOWN_COLUMNS if hasattr(row, name)}
    intents = Intent.objects.filter(kind=kind, object_id=str(pk)).order_by("-intended_at")
    return {"kind": kind, "id": pk, **shown, "journal": list(intents.values()[:MOST_INTENTS])}


def counts() -> dict[str, int]:
    """Rows of every table."""
    tables = set(connection.introspection.table_names())
    found: list[type[models.Model]] = apps.get_models(include_auto_created=True)
    return {
        one._meta.db_table: one._base_manager.count()
        for one in sorted(found, key=lambda one: one._meta.db_table)
        if one._meta.managed and one._meta.db_table in tables
    }


def migrations() -> dict[str, list[str]]:
    """Applied and missing."""
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    return {
        "applied": sorted(f"{app}.{name}" for app, name in executor.loader.applied_migrations),
        "missing": [f"{one.app_label}.{one.name}" for one, _ in plan],
    }


def server() -> dict[str, Any]:
    """Return which database it is, and who is connected."""
    told: dict[str, Any] = {"vendor": connection.vendor}
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SELECT version(), current_setting('max_connections')")
            told["version"], told["max_connections"] = cursor.fetchone()
            cursor.execute(
                "SELECT application_name, state, wait_event_type, count(*), max(now() - state_change)::text"
                " FROM pg_stat_activity WHERE datname = current_database() GROUP BY 1, 2, 3 ORDER BY 1, 2"
            )
            columns = ("application", "state", "waits_for", "connections", "longest_in_state")
            told["activity"] = [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]
        else:
            cursor.execute("SELECT sqlite_version()")
            told["version"] = cursor.fetchone()[0]
    return told
