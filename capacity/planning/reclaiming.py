"""Which workloads make room: idle ones first, then borrowers, lowest priority, least work lost, newest."""

from collections.abc import Iterable
from dataclasses import dataclass

from capacity.planning.errors import PlanningError


@dataclass(frozen=True)
class RunningWorkload:
    """A workload that holds cards of one node.

    borrowed: it holds more than its pool's guarantee. priority: higher outranks lower. checkpoint: seconds
    since its last one, None if it wrote none. lossy: its policy lets it end without one. started: seconds.
    elsewhere: cards of other nodes that it holds too.
    """

    name: str
    node: str
    cards: int
    idle: bool
    borrowed: bool
    priority: int
    checkpoint: float | None
    lossy: bool
    started: float
    preemptible: bool = True
    elsewhere: int = 0

    def lost(self, now: float) -> float:
        """The work that preemption loses, in card-seconds."""
        return (self.cards + self.elsewhere) * (
            now - self.started if self.checkpoint is None else self.checkpoint
        )


@dataclass(frozen=True)
class Reclaim:
    """The node that frees the cards, whom to preempt there, and what work that loses, in card-seconds."""

    node: str
    victims: tuple[str, ...]
    lost: float


def reclaim(
    running: Iterable[RunningWorkload],
    free: dict[str, int],
    cards: int,
    priority: int,
    now: float,
    *,
    owner: bool,
) -> Reclaim | None:
    """Find one node where `cards` can be had, since cards of several nodes would not start the job.

    free: cards by node. priority: of the workload that asks. owner: its pool is under its guarantee, so that
    borrowers of any priority must give way. None where nobody may be preempted for it.
    """
    if cards < 1:
        raise PlanningError("cards", f"A workload of {cards} cards needs none.")
    by_node: dict[str, list[RunningWorkload]] = {node: [] for node in free}
    for workload in running:
        by_node.setdefault(workload.node, []).append(workload)
    best: tuple[tuple[float, ...], str, Reclaim] | None = None
    for node, held in sorted(by_node.items()):
        victims: list[RunningWorkload] = []
        room = free.get(node, 0)
        candidates = [w for w in held if _gives_way(w, priority, owner)]
        for workload in sorted(candidates, key=lambda w: (*_rank(w, now), w.name)):
            if room >= cards:
                break
            victims.append(workload)
            room += workload.cards
        if room < cards:
            continue
        # The last ones taken may have made earlier ones needless.
        for workload in list(victims):
            if room - workload.cards >= cards:
                victims.remove(workload)
                room -= workload.cards
        worst = max((_rank(w, now) for w in victims), default=(-1.0,))
        found = Reclaim(node, tuple(w.name for w in victims), sum(w.lost(now) for w in victims if not w.idle))
        rank = (*worst[:3], found.lost, float(len(victims)))
        if best is None or (rank, node) < (best[0], best[1]):
            best = (rank, node, found)
    return best[2] if best else None


def _gives_way(workload: RunningWorkload, priority: int, owner: bool) -> bool:
    if not workload.preemptible or (workload.checkpoint is None and not workload.lossy and not workload.idle):
        return False
    return workload.idle or (owner and workload.borrowed) or workload.priority < priority


def _rank(workload: RunningWorkload, now: float) -> tuple[float, ...]:
    return (
        not workload.idle,
        not workload.borrowed,
        workload.priority,
        0.0 if workload.idle else workload.lost(now),
        -workload.started,
    )
