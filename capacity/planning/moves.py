"""Which machine goes where: from what services have to what they were granted, under guards."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import ceil


@dataclass(frozen=True)
class PoolMachine:
    """A machine of a pool.

    holder: the service that has it, or None. moving: it starts or drains. since: when its holder got it, in
    seconds. in_flight: requests that a drain would wait for. cached: services whose weights lie on it.
    kept_by: why it must not move (cordoned, a release works on its service), or an empty text.
    """

    name: str
    holder: str | None
    since: float = 0.0
    moving: bool = False
    in_flight: int = 0
    cached: frozenset[str] = frozenset()
    kept_by: str = ""


@dataclass(frozen=True)
class MoveGuards:
    """Limits of a plan's moves.

    budget: moves that this plan may make. dwell_seconds: that a machine stays at least. parallel_starts:
    machines that may start at once for one service. most_of_one: share of its machines that one service may
    lose.
    """

    budget: int = 10
    dwell_seconds: float = 300.0
    parallel_starts: int = 4
    most_of_one: float = 0.6


@dataclass(frozen=True)
class MachineMove:
    machine: str
    source: str | None
    target: str | None


@dataclass(frozen=True)
class MovePlan:
    """The moves, and codes of guards. held: by service that did not get all. kept: by service that did not
    give all."""

    moves: tuple[MachineMove, ...]
    held: Mapping[str, str] = field(default_factory=dict)
    kept: Mapping[str, str] = field(default_factory=dict)


def plan_moves(
    machines: Iterable[PoolMachine], granted: Mapping[str, int], now: float, guards: MoveGuards | None = None
) -> MovePlan:
    """Take free machines first, then of services with too many; give back to the pool what nobody needs.

    Same input, same plan. A machine that moves already counts for its holder and is not moved again.
    """
    guards = guards or MoveGuards()
    pool = sorted(machines, key=lambda machine: machine.name)
    have = dict.fromkeys(granted, 0)
    starting = dict.fromkeys(granted, 0)
    for machine in pool:
        if machine.holder in have:
            have[machine.holder] += 1
            starting[machine.holder] += machine.moving
    free = [m for m in pool if m.holder is None and not m.moving and not m.kept_by]
    spare, kept = _spare(pool, have, granted, now, guards)
    moves: list[MachineMove] = []
    held: dict[str, str] = {}
    for service in sorted(granted, key=lambda s: (have[s] - granted[s], s)):
        for _ in range(granted[service] - have[service]):
            if len(moves) >= guards.budget:
                held[service] = "budget_used"
            elif starting[service] >= guards.parallel_starts:
                held[service] = "starts_already"
            elif not (free or spare):
                held[service] = next(iter(kept.values()), "nothing_movable")
            else:
                source = free or spare
                best = min(source, key=lambda m: (service not in m.cached, m.in_flight, m.name))
                source.remove(best)
                moves.append(MachineMove(best.name, best.holder, service))
                starting[service] += 1
                continue
            break
    given_back = spare[: max(0, guards.budget - len(moves))]
    moves += [MachineMove(machine.name, machine.holder, None) for machine in given_back]
    for machine in spare[len(given_back) :]:
        if machine.holder is not None:
            kept.setdefault(machine.holder, "budget_used")
    return MovePlan(tuple(moves), held, kept)


def _spare(
    pool: list[PoolMachine],
    have: Mapping[str, int],
    granted: Mapping[str, int],
    now: float,
    guards: MoveGuards,
) -> tuple[list[PoolMachine], dict[str, str]]:
    """Machines that services have beyond their grant, quietest first; by service, what keeps more of them."""
    spare: list[PoolMachine] = []
    kept: dict[str, str] = {}
    for service in sorted(granted):
        excess = have[service] - granted[service]
        if excess <= 0:
            continue
        owned = [m for m in pool if m.holder == service and not m.moving and not m.kept_by]
        stayed = [m for m in owned if now - m.since >= guards.dwell_seconds]
        most = ceil(guards.most_of_one * have[service])
        if len(stayed) < min(excess, len(owned)):
            kept[service] = "least_time"
        elif most < min(excess, len(stayed)):
            kept[service] = "blast_radius"
        spare += sorted(stayed, key=lambda m: (m.in_flight, -m.since, m.name))[: min(excess, most)]
    return spare, kept
