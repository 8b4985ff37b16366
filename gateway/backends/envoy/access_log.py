"""Keeps the gateway's access log from filling the disk."""

from gateway.backends.envoy.admin import AdminClient
from gateway.backends.envoy.layout import EnvoyFileLayout

LARGEST_BYTES = 64 * 2**20
KEPT = 3


def rotate(layout: EnvoyFileLayout, admin: AdminClient, *, larger_than_bytes: int = LARGEST_BYTES) -> bool:
    """Begin a new log when the present one is too large; true if so. Raises GatewayUnreachable.

    Envoy goes on writing to the renamed file until it is told, so that no line is lost.
    """
    log = layout.access_log
    try:
        if log.stat().st_size <= larger_than_bytes:
            return False
    except FileNotFoundError:
        return False
    with admin.connected() as connection:
        admin.epoch(connection)
        for age in range(KEPT, 1, -1):
            older = log.with_name(f"{log.name}.{age - 1}")
            if older.exists():
                older.replace(log.with_name(f"{log.name}.{age}"))
        log.replace(log.with_name(f"{log.name}.1"))
        connection.post("/reopen_logs")
    return True
