"""What a look knows of a service and keeps of it until the next one."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from capacity.planning.effect import EffectMemory, ScaleUp, learn_effect
from capacity.planning.law import CLIPPED, ObservedLoad, ScalingMemory, offered_work
from capacity.states import CapacityPlanKind
from clusters.fleet import WorkerSnapshot, load_of

MEAN_SECONDS = 60.0


@dataclass(frozen=True)
class Remembered:
    """Kept between two looks of one service.

    at: seconds since 1970 of that look. offered: (seconds, workers) of the last minute. requests: answered
    ones by worker. waiting: requests in queues and in flight. needs to last: see
    `ScalingMemory`. effect: of the last scale-up.
    """

    at: float = 0.0
    offered: tuple[tuple[float, float], ...] = ()
    requests: Mapping[str, int] = field(default_factory=dict)
    waiting: int = 0
    needs: tuple[tuple[float, float], ...] = ()
    reviewed: float | None = None
    variance: float = 0.0
    last: tuple[float, float] | None = None
    effect: EffectMemory = field(default_factory=EffectMemory)

    @property
    def law_memory(self) -> ScalingMemory:
        return ScalingMemory(self.needs, self.reviewed, self.variance, self.last)

    def with_law(self, memory: ScalingMemory) -> "Remembered":
        return replace(
            self,
            needs=memory.needs,
            reviewed=memory.reviewed,
            variance=memory.variance,
            last=memory.last,
        )

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> "Remembered":
        pairs = {
            name: tuple((at, value) for at, value in stored.get(name, ())) for name in ("offered", "needs")
        }
        last, kept = stored.get("last"), stored.get("effect") or {}
        raised = kept.get("raised")
        rates = tuple((at, rate) for at, rate in kept.get("rates", ()))
        effect = EffectMemory(**{**kept, "rates": rates, "raised": ScaleUp(**raised) if raised else None})
        read = {**pairs, "last": tuple(last) if last else None, "effect": effect}
        return cls(**{**stored, **read}) if stored else cls()


@dataclass(frozen=True)
class ServiceLook:
    """A service at one moment. Everything counts in workers, seconds and shares of 1.

    have: workers that are wanted now. ready: those that answer. load: work that arrives. need: the load at
    the target utilisation, with what waits. wanted: recommended by its law. granted: what the pool gives it.
    why, held: codes of `capacity.reasons`; held says which guard keeps its workers as they are. bound: the
    one that keeps a plan from giving it what its law recommends; empty: it gets that.
    """

    service: str
    deployment: str = ""
    have: int = 0
    ready: int = 0
    busy: float | None = None
    in_flight: int = 0
    waiting: int = 0
    load: float = 0.0
    need: float = 0.0
    wanted: int = 0
    granted: int = 0
    target: float = 0.0
    why: str = ""
    held: str = ""
    bound: str = ""
    queue: float | None = None
    """Items that wait or are in hand in its queue; None: it has none, or that does not tell."""


@dataclass(frozen=True)
class PoolLook:
    """Looks, what to remember of each service, the changes that follow, and why there are none.

    kept: by service, code of the guard that kept more of its workers from being taken."""

    looks: tuple[ServiceLook, ...]
    remembered: Mapping[str, Remembered]
    changes: tuple[dict[str, Any], ...] = ()
    problem: str = ""
    kind: CapacityPlanKind = CapacityPlanKind.WORKERS
    kept: Mapping[str, str] = field(default_factory=dict)


def observe_load(
    before: Remembered, workers: Iterable[WorkerSnapshot], slots: int, at: float
) -> tuple[Remembered, ObservedLoad]:
    """Return the load of workers that get requests, by what was remembered; slots: of one worker."""
    found = list(workers)
    now, waiting = load_of(found), sum(worker.queue_depth for worker in found)
    slots, unfinished = max(1, slots), waiting + now.in_flight
    requests = {worker.row.uid: worker.requests for worker in found}
    answered = answered_since(before, requests)
    growth = unfinished - before.waiting if before.at else 0
    offered = offered_work(now.busy or 0.0, now.ready, slots, answered, growth, unfinished)
    passed = max(0.1, at - before.at)
    request_seconds = now.in_flight * passed / answered if answered else 1.0
    kept = [(then, busy) for then, busy in before.offered if at - MEAN_SECONDS < then < at]
    history = (*kept, (at, offered))
    mean = sum(busy for _then, busy in history) / len(history)
    after = replace(before, at=at, offered=history, requests=requests, waiting=unfinished)
    return after, ObservedLoad(at, offered, mean, waiting * request_seconds / slots)


def observe_effect(
    before: Remembered, after: Remembered, observed: ObservedLoad, look: ServiceLook
) -> EffectMemory:
    if not before.at:
        return EffectMemory(look.have)
    passed = max(0.1, after.at - before.at)
    is_full = observed.backlog > 0 or (look.busy or 0.0) >= CLIPPED
    rate = answered_since(before, after.requests) / passed
    return learn_effect(before.effect, after.at, have=look.have, ready=look.ready, is_full=is_full, rate=rate)


def answered_since(before: Remembered, requests: Mapping[str, int]) -> int:
    """Count the requests that were answered since a look; a worker that was not there then counts none."""
    return sum(
        max(0, count - before.requests[uid]) for uid, count in requests.items() if uid in before.requests
    )


def stored(value: Any) -> dict[str, Any]:
    """A look or what is remembered, as its column keeps it."""
    return asdict(value)
