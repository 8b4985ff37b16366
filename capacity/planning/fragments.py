"""Cards that are free but scattered: how many jobs could start, and which jobs to move so that more can."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from capacity.planning.errors import PlanningError

MOST_LEFT_OUT = 16
"""Cheap nodes that a plan tries without."""


@dataclass(frozen=True)
class PlacedJob:
    """A job on one node. restart_cost: of moving it, in card-seconds. movable: it may be moved at all."""

    name: str
    cards: int
    restart_cost: float
    movable: bool = True


@dataclass(frozen=True)
class CardNode:
    """A node with its cards and the jobs on it. open: new jobs may be placed there."""

    name: str
    cards: int
    jobs: tuple[PlacedJob, ...] = ()
    open: bool = True

    def __post_init__(self) -> None:
        if self.used > self.cards:
            raise PlanningError(
                "jobs", f"The jobs of {self.name} hold {self.used} cards; it has {self.cards}."
            )

    @property
    def used(self) -> int:
        return sum(job.cards for job in self.jobs)

    @property
    def free(self) -> int:
        return self.cards - self.used if self.open else 0


def startable(nodes: Iterable[CardNode], cards: int) -> int:
    """Count the jobs of so many cards that could start now; larger jobs than a node take whole free nodes."""
    if cards < 1:
        raise PlanningError("cards", f"A job of {cards} cards is none: ask for one card or more.")
    chosen = list(nodes)
    largest = max((node.cards for node in chosen), default=0)
    if cards <= largest:
        return sum(node.free // cards for node in chosen)
    empty = sorted((node.cards for node in chosen if node.open and not node.jobs), reverse=True)
    jobs = held = 0
    for size in empty:
        held += size
        if held >= cards:
            jobs, held = jobs + 1, 0
    return jobs


@dataclass(frozen=True)
class JobMove:
    job: str
    cards: int
    restart_cost: float
    source: str
    target: str


@dataclass(frozen=True)
class Defragmentation:
    """The moves, the nodes that they free, and how many of those wanted stay occupied."""

    moves: tuple[JobMove, ...]
    freed: tuple[str, ...]
    missing: int

    @property
    def cost(self) -> float:
        return sum(move.restart_cost for move in self.moves)


def free_nodes(nodes: Iterable[CardNode], wanted: int, cards: int = 8) -> Defragmentation:
    """Free `wanted` more nodes of at least `cards` cards: the cheapest first, its jobs best-fit elsewhere.

    A cheap node may take the places that two others need: nodes are left out one by one as long as that
    frees more, or costs less.
    """
    state = {node.name: node for node in nodes}
    candidates = sorted(
        (
            n
            for n in state.values()
            if n.open and n.jobs and n.cards >= cards and all(job.movable for job in n.jobs)
        ),
        key=lambda n: (sum(job.restart_cost for job in n.jobs), n.used, n.name),
    )
    best = _freed_in_order(candidates, state, wanted)
    for _ in range(MOST_LEFT_OUT):
        shorter = [[n for n in candidates if n.name != name] for name in best.freed]
        tried = [(_freed_in_order(order, state, wanted), order) for order in shorter]
        found, order = min(tried, key=lambda one: (one[0].missing, one[0].cost), default=(best, candidates))
        if (found.missing, found.cost) >= (best.missing, best.cost):
            break
        best, candidates = found, order
    return best


def _freed_in_order(
    candidates: list[CardNode], nodes: Mapping[str, CardNode], wanted: int
) -> Defragmentation:
    """Free the candidates in their order, as far as their jobs find places elsewhere."""
    state = dict(nodes)
    moves: list[JobMove] = []
    freed: list[str] = []
    for candidate in candidates:
        if len(freed) == wanted:
            break
        # A job that came from a node freed before costs once: it is not moved a second time.
        if any(move.target == candidate.name for move in moves):
            continue
        placed = _placed_elsewhere(candidate, state, freed)
        if placed is None:
            continue
        for move, job in placed:
            target = state[move.target]
            state[move.target] = replace(target, jobs=(*target.jobs, job))
            moves.append(move)
        state[candidate.name] = replace(candidate, jobs=())
        freed.append(candidate.name)
    return Defragmentation(tuple(moves), tuple(freed), wanted - len(freed))


def _placed_elsewhere(
    node: CardNode, state: dict[str, CardNode], freed: list[str]
) -> list[tuple[JobMove, PlacedJob]] | None:
    """Each job of the node on the fullest node that takes it; None where one finds no place."""
    # An empty node is no target: filling it would free nothing.
    room = {
        other.name: other.free
        for other in state.values()
        if other.name != node.name and other.name not in freed and other.jobs
    }
    placed = []
    for job in sorted(node.jobs, key=lambda job: (-job.cards, job.name)):
        fits = [(free, name) for name, free in room.items() if free >= job.cards]
        if not fits:
            return None
        _, target = min(fits)
        room[target] -= job.cards
        placed.append((JobMove(job.name, job.cards, job.restart_cost, node.name, target), job))
    return placed
