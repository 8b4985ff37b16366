"""How many connections to PostgreSQL there are: of all processes, as the server says, and of our pool."""

from collections import Counter
from dataclasses import dataclass

from django.db import connection

ROLES = frozenset({"web", "worker", "sweeper", "manage"})
OTHER = "other"
STATES = {"active": "active", "idle": "idle", "idle in transaction": "in_transaction"}
NAME = "slipway"


def application_name(role: str) -> str:
    """Return the name by which the server knows whose a connection is."""
    return f"{NAME} {role}" if role else NAME


@dataclass(frozen=True, slots=True)
class ServerConnections:
    """Connections of all processes to this database."""

    by_role: Counter[tuple[str, str]]
    """By role and state: `active`, `idle`, `in_transaction`, `other`."""
    limit: int
    """`max_connections` of the server, which may have other databases, too."""


@dataclass(frozen=True, slots=True)
class PoolFigures:
    """Connections in this process's pool."""

    in_use: int
    idle: int
    limit: int
    waiting: int
    """Callers that wait for a connection."""


def server_connections() -> ServerConnections | None:
    """Count the server's connections in one query; None without PostgreSQL."""
    if connection.vendor != "postgresql":
        return None
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT application_name, state, count(*), current_setting('max_connections')::int"
            " FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'"
            " GROUP BY 1, 2"
        )
        rows = cursor.fetchall()
    found: Counter[tuple[str, str]] = Counter()
    for name, state, number, _ in rows:
        role = name.removeprefix(NAME).strip() if name.startswith(NAME) else ""
        found[role if role in ROLES else OTHER, STATES.get(state, OTHER)] += number
    return ServerConnections(found, max((row[3] for row in rows), default=0))


def pool_figures() -> PoolFigures | None:
    """Return the figures of this process's pool; None where there is no pool."""
    pool = getattr(connection, "pool", None) if connection.vendor == "postgresql" else None
    if pool is None:
        return None
    stats = pool.get_stats()
    idle, size = stats["pool_available"], stats["pool_size"]
    return PoolFigures(
        in_use=max(0, size - idle), idle=idle, limit=stats["pool_max"], waiting=stats["requests_waiting"]
    )
