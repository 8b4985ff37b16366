"""The backend: a connection of the pool, or a refusal at once while the server is known to be away."""

import os
from typing import Any

from django.db.backends.postgresql import base

from common.database.connections import application_name
from common.database.outage import OutageAwareConnection, outage
from common.logs import context

LOOKS_WITHIN_SECONDS = 2


class DatabaseWrapper(base.DatabaseWrapper):
    def get_connection_params(self) -> dict[str, Any]:
        """Add the role, so that the server can tell whose a connection is."""
        return {
            "application_name": application_name(context.role()),
            **super().get_connection_params(),
        }

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """Raises OperationalError: at once during an outage, or when every connection is in use too long."""
        if self.pool is None:
            return super().get_new_connection(conn_params)
        if outage.is_on:
            if not outage.may_try():
                raise self.Database.OperationalError(f"The database does not answer: {outage.reason}")
            # Outside the pool, which would make the caller wait for its next try.
            parameters = {**conn_params, "connect_timeout": LOOKS_WITHIN_SECONDS}
            OutageAwareConnection.connect(**parameters).close()
        return super().get_new_connection(conn_params)


def _forget_pools() -> None:
    """Drop the parent's pool in a process that was just forked: the threads that look after it are not here,
    and its connections are the parent's. They are not closed, which would end them there, too.
    """
    DatabaseWrapper._connection_pools = {}  # type: ignore[attr-defined]


os.register_at_fork(after_in_child=_forget_pools)
