"""A look at the groups of one service: what was seen, and how many workers should be online."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any

from capacity.looks import Remembered, observe_load
from capacity.models import PoolMember, ServiceGroups, active_law
from capacity.observing import held_by, stable_target
from capacity.planning.groups import GroupDecision, GroupRules, GroupState, SplitMemory, split
from capacity.planning.law import ScalingMemory
from capacity.planning.policies import law_with
from capacity.states import PoolMode
from clusters import selectors as fleet
from clusters.fleet import DeploymentSnapshot, WorkerSnapshot, load_of
from common.errors import Unavailable
from common.job_queue import ask_queue
from gateway import selectors as gateways
from gateway.errors import GatewayError, UnknownRoute
from gateway.latency import Histogram, quantile_ms, since, total

EXPECTED_SWITCH_SECONDS = 10.0
"""Of a worker whose model stays loaded, before it was measured."""
P95 = 0.95


@dataclass(frozen=True)
class GroupMemory:
    """Kept between two looks. offered to waiting: see `capacity.looks.Remembered`; needs to busy_until:
    see `capacity.planning.groups.SplitMemory`. answers: by bound of the gateway's latencies, of one epoch.
    refused: requests, by worker."""

    load: Remembered = field(default_factory=Remembered)
    law: SplitMemory = field(default_factory=SplitMemory)
    epoch: str = ""
    answers: tuple[int, ...] = ()
    refused: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> "GroupMemory":
        if not stored:
            return cls()
        law, kept = stored["law"], stored["law"]["law"]
        needs = tuple((at, need) for at, need in kept["needs"])
        last = tuple(kept["last"]) if kept["last"] else None
        return cls(
            Remembered.of(stored["load"]),
            SplitMemory(**{**law, "law": ScalingMemory(needs, kept["reviewed"], kept["variance"], last)}),
            stored["epoch"],
            tuple(stored["answers"]),
            stored["refused"],
        )


@dataclass(frozen=True)
class GroupLook:
    """Groups at one moment. ready, online, offline, switching: workers. jobs: that wait or run in the queue.
    jobs_running: in the hands of workers. load, need: in workers. wanted: workers online. why: a code. held:
    code of the guard that keeps the groups as they are. bound_ms, latency_ms: P95 to the first byte."""

    at: float
    ready: int = 0
    online: int = 0
    offline: int = 0
    switching: int = 0
    busy: float | None = None
    load: float = 0.0
    need: float = 0.0
    target: float = 0.0
    jobs: int | None = None
    jobs_running: int = 0
    latency_ms: float | None = None
    bound_ms: int | None = None
    wanted: int = 0
    why: str = ""
    held: str = ""


@dataclass(frozen=True)
class SeenGroups:
    """A look, what to remember of it, and the decision; None: there is nothing to decide."""

    look: GroupLook
    memory: GroupMemory
    target: str = ""
    offline: tuple[str, ...] = ()
    """Ids of the workers to be offline."""
    decision: GroupDecision | None = None
    is_switched: bool = False
    """All workers are as the row wants them."""


def look_at_groups(row: ServiceGroups, now: datetime) -> SeenGroups:
    """Observe the groups and decide. Without heartbeats, or a queue that answers, nothing changes."""
    member, at = row.member, now.timestamp()
    memory = GroupMemory.of(row.memory)
    target = stable_target(member.service)
    deployment = fleet.deployments_now([target]).get(target)
    if deployment is None:
        return SeenGroups(GroupLook(at, held="no_workers"), memory, target)
    away = fleet.offline_workers(target)
    serving = [one for one in deployment.workers if one.row.uid not in away]
    ready = [one for one in deployment.workers if one.busy is not None and one.offers_slots]
    load = load_of(serving)
    (latency_ms, fresh), answers, epoch = _latency(member, target, memory)
    switch = EXPECTED_SWITCH_SECONDS if row.switch_seconds is None else row.switch_seconds
    law = law_with(switch, active_law(member))
    look = GroupLook(
        at,
        ready=len(ready),
        online=sum(one in serving for one in ready),
        offline=sum(one.group == "offline" for one in ready),
        switching=_switching(row, deployment, away),
        busy=load.busy,
        target=law.target,
        jobs=_jobs(member.service, target),
        jobs_running=sum(one.jobs_running for one in ready),
        latency_ms=latency_ms,
        bound_ms=row.latency_bound_ms,
        held=held_by(member.pool, member.service, target, deployment),
    )
    refused = {one.row.uid: one.refused for one in deployment.workers}
    turned_away = sum(
        max(0, count - memory.refused[uid]) for uid, count in refused.items() if uid in memory.refused
    )
    memory = replace(memory, answers=answers, epoch=epoch, refused=refused)
    if look.busy is None or look.jobs is None:
        held = look.held or ("no_heartbeats" if look.busy is None else "no_queue")
        return SeenGroups(replace(look, held=held, wanted=look.online), memory, target)
    remembered, observed = observe_load(memory.load, serving, deployment.row.slots, at)
    state = GroupState(
        look.ready,
        look.online,
        look.jobs,
        latency_ms=latency_ms,
        answers=fresh,
        expected_ms=1_000 * observed.backlog / max(1, look.online),
        refused=turned_away,
    )
    rules = GroupRules(row.least_online, row.latency_bound_ms)
    decision = split(law, rules, memory.law, observed, state)
    memory = replace(memory, load=remembered, law=decision.memory)
    look = replace(look, load=observed.load, need=decision.need, wanted=decision.online, why=decision.why)
    if look.held and not decision.is_guarded:
        return SeenGroups(look, memory, target)
    offline = _offline(ready, row, look.ready - decision.online) if not look.held else ()
    return SeenGroups(look, memory, target, offline, decision, is_switched=look.switching == 0)


def _offline(ready: list[WorkerSnapshot], row: ServiceGroups, number: int) -> tuple[str, ...]:
    """Keep those offline that are, those with jobs first; then take the quietest."""
    wanted = set(row.wanted_offline)

    def rank(one: WorkerSnapshot) -> tuple[bool, bool, int, str]:
        return (one.row.uid not in wanted, not one.jobs_running, one.in_flight, one.row.uid)

    return tuple(sorted(one.row.uid for one in sorted(ready, key=rank)[:number]))


def _switching(row: ServiceGroups, deployment: DeploymentSnapshot, away: set[str]) -> int:
    """Count the workers that are not yet as the row wants them."""
    wanted = set(row.wanted_offline)
    return sum(
        (one.row.uid in away) != (one.row.uid in wanted) or (one.row.uid in wanted and one.group != "offline")
        for one in deployment.workers
        if one.offers_slots
    )


def _jobs(service: str, target: str) -> int | None:
    """Count the jobs that wait or run; None: the queue does not answer."""
    with suppress(Unavailable):
        return ask_queue(lambda _, store: store.unfinished_count((service, target)))
    return None


def _latency(
    member: PoolMember, target: str, memory: GroupMemory
) -> tuple[tuple[float | None, int], tuple[int, ...], str]:
    """Return P95 to the first byte and the number of answers since the last look; and what to remember."""
    try:
        counts = gateways.counts(gateways.route(member.service)).get(target)
    except (GatewayError, UnknownRoute):
        counts = None
    if counts is None:
        return (None, 0), memory.answers, memory.epoch
    fresh: Histogram = ()
    if counts.epoch == memory.epoch:
        with suppress(ValueError):
            fresh = since(_histogram(counts.first_byte_ms, memory.answers), counts.first_byte_ms)
    return (quantile_ms(fresh, P95), total(fresh)), tuple(n for _, n in counts.first_byte_ms), counts.epoch


def _histogram(like: Histogram, counts: tuple[int, ...]) -> Histogram:
    return tuple((bound, count) for (bound, _), count in zip(like, counts, strict=False))


def applies(row: ServiceGroups) -> bool:
    """Whether decisions are carried out: in pools that act by themselves."""
    return row.member.pool.state == PoolMode.AUTOMATIC


def stored_look(seen: SeenGroups) -> dict[str, Any]:
    return asdict(seen.look)


def stored_memory(seen: SeenGroups) -> dict[str, Any]:
    return asdict(seen.memory)
