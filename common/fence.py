"""The order of writers to a resource outside of the database."""

from typing import NamedTuple


class Fence(NamedTuple):
    """Order of writers of one resource: a later holder, or a later turn of the same holder, wins.

    `holder` is the id of the row that writes (for a route the release, 0 the service itself), `turn` its
    fence in the reconcile kernel.
    """

    holder: int
    turn: int
