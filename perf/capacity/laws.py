"""Machines between services: violations, harvest and moves of each law, at three switch times."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from capacity.planning.law import ObservedLoad, ScalingLaw, ScalingMemory, law_for, recommend
from perf.capacity.loads import DAY, Loads, tides

TICK = 10
MACHINES = 120
SWITCH_SECONDS = (10, 60, 180)


@dataclass
class LoadView:
    """A law's view of one service: figures of the last seconds, and of the future for the oracle alone."""

    at: float
    offered_10s: float
    offered_60s: float
    backlog: float
    serving: int
    have: int
    busy: float
    ahead: float


Law = Callable[[LoadView], int]


def ours(law: ScalingLaw) -> Law:
    memory = ScalingMemory()

    def decide(look: LoadView) -> int:
        nonlocal memory
        observed = ObservedLoad(look.at, look.offered_10s, look.offered_60s, look.backlog)
        told = recommend(law, memory, observed, look.have)
        memory = told.memory
        return told.machines

    return decide


def deadband(high: float, low: float, every: float, share: float) -> Law:
    last = -math.inf

    def decide(look: LoadView) -> int:
        nonlocal last
        if look.at - last < every:
            return look.have
        if look.busy > high:
            last = look.at
            return math.ceil(look.have * (1 + share))
        if look.busy < low:
            last = look.at
            return math.floor(look.have * (1 - share))
        return look.have

    return decide


def flink(target: float, window: float) -> Law:
    seen: list[float] = []
    last = -math.inf

    def decide(look: LoadView) -> int:
        nonlocal last
        seen.append(look.offered_10s)
        del seen[: -int(window // TICK)]
        if look.at - last < window / 3:
            return look.have
        want = math.ceil(sum(seen) / len(seen) / target + look.backlog / 600)
        if abs(want - look.have) > 0.1 * look.have:
            last = look.at
            return want
        return look.have

    return decide


def hpa(target: float, count_starting: bool) -> Law:
    """Kubernetes' HorizontalPodAutoscaler: ratio with 10 % tolerance, highest of 300 s on the way down."""
    recent: list[tuple[float, int]] = []

    def decide(look: LoadView) -> int:
        base = look.have if count_starting else look.serving
        ratio = look.busy / target
        want = (
            look.have
            if abs(ratio - 1) <= 0.1
            else math.ceil((look.serving if count_starting else base) * ratio)
        )
        recent.append((look.at, want))
        while recent[0][0] < look.at - 300:
            recent.pop(0)
        return max(want, min(look.have, max(past for _, past in recent)))

    return decide


def asymmetric(target: float, hold: float) -> Law:
    recent: list[tuple[float, int]] = []

    def decide(look: LoadView) -> int:
        want = math.ceil(max(look.offered_10s, look.offered_60s) / target + look.backlog / 60)
        recent.append((look.at, want))
        while recent[0][0] < look.at - hold:
            recent.pop(0)
        highest = max(past for _, past in recent)
        if want > look.have:
            return want
        return highest if highest < 0.88 * look.have else look.have

    return decide


def oracle(hold: float = 300) -> Law:
    """Knows what comes until a move ordered at the next look would end, and keeps that for the hold."""
    recent: list[tuple[float, int]] = []

    def decide(look: LoadView) -> int:
        recent.append((look.at, math.ceil(look.ahead)))
        while recent[0][0] < look.at - hold:
            recent.pop(0)
        return max(past for _, past in recent)

    return decide


def laws(switch: int) -> dict[str, Callable[[], Law]]:
    return {
        "deadband .8/.4, +-10 %, 5 min": lambda: deadband(0.8, 0.4, 300, 0.1),
        "Flink-like, .7, 15 min": lambda: flink(0.7, 900),
        "HPA on Busy .7": lambda: hpa(0.7, True),
        "the same, starting not counted": lambda: hpa(0.7, False),
        "asymmetric deadband .75": lambda: asymmetric(0.75, 600),
        "ours": lambda: ours(law_for(switch)),
        "oracle": oracle,
    }


@dataclass
class World:
    """The services under one law: what serves, what starts and when, what waits."""

    decide: list[Law]
    serving: np.ndarray
    coming: list[list[tuple[int, int]]]
    waiting: np.ndarray
    violated: float = 0.0
    harvest: float = 0.0
    moves: int = 0
    served: np.ndarray = field(default_factory=lambda: np.zeros(3))


def run(loads: Loads, switch: int) -> dict[str, tuple[float, float, float]]:
    """Violations in percent of the work, harvest in percent of the machines' time, moves a day; by law."""
    seconds, services = loads.shape
    chosen = laws(switch)
    worlds = [
        World(
            [make() for _ in range(services)],
            np.ceil(loads[:60].mean(axis=0) / 0.7),
            [[] for _ in range(services)],
            np.zeros(services),
        )
        for make in chosen.values()
    ]
    total = loads.sum()
    sums = np.concatenate([np.zeros((1, services)), np.cumsum(loads, axis=0)])
    serving = np.stack([world.serving for world in worlds])
    waiting = np.zeros_like(serving)
    violated = np.zeros(len(worlds))
    worked = np.zeros_like(serving)
    for tick in range(0, seconds, TICK):
        worked[:] = 0
        for second in range(tick, min(tick + TICK, seconds)):
            waiting += loads[second]
            done = np.minimum(waiting, serving)
            waiting -= done
            worked += done
            violated += ((waiting > serving) * loads[second]).sum(axis=1)
        now = min(tick + TICK, seconds)
        ten = (sums[now] - sums[max(0, now - 10)]) / 10
        sixty = (sums[now] - sums[max(0, now - 60)]) / min(60, now)
        coming = loads[now : now + switch + 2 * TICK]
        coming = coming[: len(coming) // 5 * 5].reshape(-1, 5, services).mean(axis=1)
        ahead = coming.max(axis=0) if len(coming) else ten
        busy = worked / TICK / np.maximum(serving, 1)
        for index, world in enumerate(worlds):
            for service in range(services):
                arrived = [amount for due, amount in world.coming[service] if due <= now]
                world.coming[service] = [(due, amount) for due, amount in world.coming[service] if due > now]
                serving[index, service] += sum(arrived)
            have = [
                int(serving[index, s]) + sum(amount for _, amount in world.coming[s]) for s in range(services)
            ]
            wanted = []
            for service in range(services):
                look = LoadView(
                    now,
                    ten[service],
                    sixty[service],
                    waiting[index, service],
                    int(serving[index, service]),
                    have[service],
                    float(busy[index, service]),
                    float(ahead[service]),
                )
                wanted.append(max(1, world.decide[service](look)))
            for service in range(services):
                fewer = have[service] - wanted[service]
                while fewer > 0 and world.coming[service]:
                    due, amount = world.coming[service].pop()
                    kept = max(0, amount - fewer)
                    world.moves += amount - kept
                    fewer -= amount - kept
                    if kept:
                        world.coming[service].append((due, kept))
                if fewer > 0:
                    serving[index, service] -= fewer
                    world.moves += fewer
            room = MACHINES - int(serving[index].sum()) - sum(a for c in world.coming for _, a in c)
            for service in range(services):
                more = min(wanted[service] - have[service], room)
                if more > 0:
                    world.coming[service].append((now + switch, more))
                    world.moves += more
                    room -= more
            used = serving[index].sum() + sum(a for c in world.coming for _, a in c)
            world.harvest += (MACHINES - used) * TICK
    days = seconds / DAY
    return {
        name: (100 * violated[i] / total, 100 * world.harvest / MACHINES / seconds, world.moves / days)
        for i, (name, world) in enumerate(zip(chosen, worlds, strict=True))
    }


def report(days: int, seeds: int, trace: Path | None) -> None:
    print(f"{seeds} seeds of {days} days, {MACHINES} machines: violations % / harvest % / moves a day")
    for switch in SWITCH_SECONDS:
        rows: dict[str, list[tuple[float, float, float]]] = {}
        for seed in range(seeds):
            for name, figures in run(tides(seed, days, MACHINES, trace), switch).items():
                rows.setdefault(name, []).append(figures)
        print(f"switch in {switch} s")
        for name, figures in rows.items():
            violations, harvest, moves = np.mean(figures, axis=0)
            print(f"  {name:34} {violations:7.3f} / {harvest:5.1f} / {moves:6.0f}")
