"""Workers that follow a queue: worker-hours, age and starts of each rule, at three start-up times."""

import math
from collections import deque
from collections.abc import Callable

import numpy as np

from capacity.planning.backlog import QueueBacklog, hold_seconds, workers_for

TICK = 5
DAYS = 3
CAP = 400
START_SECONDS = (60, 300, 600)

Rule = Callable[[QueueBacklog, float], int]


def _keda(backlog: QueueBacklog, _busy: float) -> int:
    return math.ceil(backlog.waiting / ITEM_SECONDS / 10)


def _hpa(backlog: QueueBacklog, busy: float) -> int:
    ratio = busy / 0.7
    have = backlog.running + backlog.starting
    return (
        have if abs(ratio - 1) <= 0.1 and not backlog.waiting else max(1, math.ceil(backlog.running * ratio))
    )


def _aws(backlog: QueueBacklog, _busy: float) -> int:
    return math.ceil(backlog.waiting / 60)


def _flink(backlog: QueueBacklog, _busy: float) -> int:
    return math.ceil(backlog.rate / 0.7 + backlog.waiting / 900)


def _lag60(backlog: QueueBacklog, _busy: float) -> int:
    return math.ceil(backlog.rate / 0.85 + backlog.waiting / 60)


def _ours(backlog: QueueBacklog, _busy: float) -> int:
    return workers_for(backlog)


RULES: dict[str, Rule] = {
    "KEDA lag/10": _keda,
    "HPA .7": _hpa,
    "AWS backlog/60": _aws,
    "Flink .7": _flink,
    "rate/.85 + lag/60": _lag60,
    "ours": _ours,
}
ITEM_SECONDS = 2.0


def arrivals(seed: int) -> np.ndarray:
    """Items in each tick: a tide, noise, bursts of a minute, and one dump of 30,000 items."""
    random = np.random.default_rng(seed)
    ticks = DAYS * 86_400 // TICK
    at = np.arange(ticks) * TICK
    rate = 20 * (1 + 0.8 * np.sin(2 * np.pi * at / 86_400)) * np.exp(0.1 * random.standard_normal(ticks))
    for start in random.integers(0, ticks - 12, 12 * DAYS):
        rate[start : start + 12] *= random.uniform(1.5, 3)
    items = random.poisson(rate * TICK).astype(float)
    items[ticks // 2] += 30_000
    return items


def run(rule: Rule, items: np.ndarray, start_seconds: int) -> tuple[float, float, float]:
    """Worker-hours, 99th percentile of the age at service in seconds, starts a day."""
    running, coming = 40, deque[tuple[int, int]]()
    waiting: deque[list[float]] = deque()
    lag = 0.0
    ages: dict[int, float] = {}
    recent: deque[tuple[int, int]] = deque()
    rates: deque[float] = deque(maxlen=60 // TICK)
    hours = starts = 0.0
    for tick, new in enumerate(items):
        now = tick * TICK
        while coming and coming[0][0] <= now:
            running += coming.popleft()[1]
        if new:
            waiting.append([now, new])
            lag += new
        room = done = running * TICK / ITEM_SECONDS
        while room > 0 and waiting:
            at, count = waiting[0]
            taken = min(room, count)
            ages[int(now - at)] = ages.get(int(now - at), 0) + taken
            room -= taken
            lag -= taken
            if taken == count:
                waiting.popleft()
            else:
                waiting[0][1] -= taken
        busy = (done - room) / done if done else 1.0
        rates.append(new / TICK)
        starting = sum(count for _, count in coming)
        backlog = QueueBacklog(
            sum(rates) / len(rates) * ITEM_SECONDS,
            max(0, lag) * ITEM_SECONDS,
            running,
            starting,
            start_seconds,
        )
        want = min(CAP, max(1, rule(backlog, busy)))
        hold = hold_seconds(start_seconds)
        while recent and (recent[-1][1] <= want or recent[0][0] < now - hold):
            recent.pop() if recent[-1][1] <= want else recent.popleft()
        recent.append((now, want))
        have = running + starting
        if want > have:
            coming.append((now + start_seconds, want - have))
            starts += want - have
        elif recent[0][1] < have:
            fewer = have - recent[0][1]
            while fewer and coming:
                due, count = coming.pop()
                kept = max(0, count - fewer)
                fewer -= count - kept
                if kept:
                    coming.append((due, kept))
            running -= fewer
        hours += (running + sum(count for _, count in coming)) * TICK / 3_600
    total, seen = sum(ages.values()), 0.0
    for age in sorted(ages):
        seen += ages[age]
        if seen >= 0.99 * total:
            break
    return hours, float(age), starts / DAYS


def report(seeds: int) -> None:
    print(f"{seeds} seeds of {DAYS} days, cap {CAP}: worker-hours / age p99 s / starts a day")
    for start in START_SECONDS:
        print(f"start-up {start} s")
        for name, rule in RULES.items():
            hours, age, starts = np.mean([run(rule, arrivals(seed), start) for seed in range(seeds)], axis=0)
            print(f"  {name:20} {hours:8,.0f} / {age:4.0f} / {starts:6,.0f}")
