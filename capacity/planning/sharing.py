"""Machines of one pool between its services: guarantees first, then the load of all, then headroom."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil

from capacity.planning.errors import PlanningError

FULL_POOL_BAND = 0.10
"""In a full pool, changes of less than this share would only pass headroom to and fro."""


@dataclass(frozen=True)
class Demand:
    """Demand of one service of the pool.

    guarantee: machines it always has. limit: machines it may have at most. weight: of its headroom against
    that of others. base: its load, in machines. wanted: its load with headroom. have: serving and starting.
    """

    service: str
    guarantee: int
    limit: int
    weight: float
    base: float
    wanted: int
    have: int


def grants(machines: int, demands: Iterable[Demand]) -> dict[str, int]:
    """Machines for each service, never more than there are, never under a guarantee.

    Idle guarantees stay with their service: a pool that lends says so by a smaller guarantee.
    """
    chosen = sorted(demands, key=lambda demand: demand.service)
    _check(machines, chosen)
    given = {demand.service: demand.guarantee for demand in chosen}
    bases = {d.service: _within(d, ceil(d.base)) for d in chosen}
    wants = {d.service: max(bases[d.service], _within(d, d.wanted)) for d in chosen}
    for goal in (bases, wants):
        short = {d.service: goal[d.service] - given[d.service] for d in chosen}
        weights = {d.service: d.weight for d in chosen}
        for service, more in _in_proportion(machines - sum(given.values()), short, weights).items():
            given[service] += more
    if sum(wants.values()) <= machines:
        return given
    return _without_small_changes(machines, chosen, given)


def _check(machines: int, demands: list[Demand]) -> None:
    for demand in demands:
        if not 0 <= demand.guarantee <= demand.limit:
            raise PlanningError(
                "guarantee",
                f"{demand.service} is guaranteed {demand.guarantee} machines and limited to {demand.limit}.",
            )
        if not demand.weight > 0:
            raise PlanningError(
                "weight", f"The weight of {demand.service} is {demand.weight}; it must be above 0."
            )
    if len({demand.service for demand in demands}) < len(demands):
        raise PlanningError("service", "A service stands twice in the pool.")
    if (promised := sum(demand.guarantee for demand in demands)) > machines:
        raise PlanningError(
            "guarantee", f"Guarantees of {promised} machines exceed the {machines} of the pool."
        )


def _within(demand: Demand, machines: int) -> int:
    return min(max(machines, demand.guarantee), demand.limit)


def _in_proportion(room: int, short: Mapping[str, int], weights: Mapping[str, float]) -> dict[str, int]:
    """Fill what is short by weight x shortness; whole machines by largest remainder, equal ones by name."""
    total = sum(short.values())
    if total <= room:
        return dict(short)
    given = dict.fromkeys(short, 0)
    while room > 0 and (
        open_ := {s: (short[s] - given[s]) * weights[s] for s in short if short[s] > given[s]}
    ):
        share = room / sum(open_.values())
        whole = {s: min(short[s] - given[s], int(part * share)) for s, part in open_.items()}
        if not any(whole.values()):
            for service in sorted(open_, key=lambda s: (-open_[s], s))[:room]:
                given[service] += 1
            break
        for service, more in whole.items():
            given[service] += more
        room -= sum(whole.values())
    return given


def _without_small_changes(machines: int, demands: list[Demand], given: dict[str, int]) -> dict[str, int]:
    """Leave a service what it has where the change is small, if all of them then fit."""
    steady = dict(given)
    for demand in demands:
        small = abs(given[demand.service] - demand.have) < FULL_POOL_BAND * max(demand.have, 1)
        covers = ceil(demand.base) <= demand.have or given[demand.service] <= demand.have
        if small and covers and demand.guarantee <= demand.have <= demand.limit:
            steady[demand.service] = demand.have
    return steady if sum(steady.values()) <= machines else given
