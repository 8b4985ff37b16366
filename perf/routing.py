"""How gateways choose among the workers of an ability: `python -m perf.routing`, with a clock of its own.

Each rule serves the same arrivals, seeded, beside the ideal: one queue before all slots. A request takes 10 s
in the mean (log-normal, p95 of 26 s); gateways see their own requests only.
"""

import argparse
import heapq
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import fmean, quantiles

LOAD = 0.8
MEAN_SECONDS = 10.0
SIGMA = 0.8
ATTEMPTS = 4
"""As Envoy has them: the first, and three retries."""


@dataclass
class SimulatedWorker:
    slots: int
    running: int = 0
    queue: list[int] = field(default_factory=list)

    @property
    def load(self) -> float:
        return (self.running + len(self.queue)) / self.slots


@dataclass(frozen=True)
class Arrival:
    at: float
    seconds: float
    gateway: int
    draw: random.Random


Choose = Callable[["Fleet", Arrival], int]


class Fleet:
    """Workers, and what each gateway has sent to them that is not answered."""

    def __init__(self, slots: Sequence[int], gateways: int) -> None:
        self.workers = [SimulatedWorker(one) for one in slots]
        self.sent = [[0] * len(slots) for _ in range(gateways)]
        self.turns = [0] * gateways
        self.deadlines = [[(1 / one, number) for number, one in enumerate(slots)] for _ in range(gateways)]
        for deadlines in self.deadlines:
            heapq.heapify(deadlines)

    def weighted(self, request: Arrival, left: set[int]) -> int:
        """Envoy's least request among endpoints of different weights, here their slots: earliest deadline
        first, by weight / (requests in flight + 1) as it was when the endpoint was last chosen."""
        deadlines, sent = self.deadlines[request.gateway], self.sent[request.gateway]
        while True:
            now, chosen = heapq.heappop(deadlines)
            heapq.heappush(deadlines, (now + (sent[chosen] + 1) / self.workers[chosen].slots, chosen))
            if chosen in left:
                return chosen

    def least(self, request: Arrival, among: Sequence[int], *, by_slots: bool) -> int:
        """The one with the fewest requests of this gateway in flight; among several any."""
        sent = self.sent[request.gateway]
        figures = [sent[one] / (self.workers[one].slots if by_slots else 1) for one in among]
        fewest = min(figures)
        return request.draw.choice([one for one, load in zip(among, figures, strict=True) if load == fewest])


def round_robin(fleet: Fleet, request: Arrival) -> int:
    fleet.turns[request.gateway] += 1
    return fleet.turns[request.gateway] % len(fleet.workers)


def least_request(fleet: Fleet, request: Arrival) -> int:
    return fleet.least(request, range(len(fleet.workers)), by_slots=False)


def least_over_slots(fleet: Fleet, request: Arrival) -> int:
    return fleet.least(request, range(len(fleet.workers)), by_slots=True)


def by_weight(fleet: Fleet, request: Arrival) -> int:
    return fleet.weighted(request, set(range(len(fleet.workers))))


def by_weight_passed_on(fleet: Fleet, request: Arrival) -> int:
    """The same; a worker without a free slot refuses before the last attempt, and Envoy tries another one."""
    left = set(range(len(fleet.workers)))
    for _ in range(ATTEMPTS - 1):
        chosen = fleet.weighted(request, left)
        if fleet.workers[chosen].running < fleet.workers[chosen].slots or len(left) == 1:
            return chosen
        left.remove(chosen)
    return fleet.weighted(request, left)


RULES: dict[str, Choose] = {
    "round robin": round_robin,
    "least request": least_request,
    "least over slots": least_over_slots,
    "weights by slots": by_weight,
    "weights by slots, full pass on": by_weight_passed_on,
}


def arrivals(slots: int, gateways: int, requests: int, seed: int) -> list[Arrival]:
    draw = random.Random(seed)
    rate = LOAD * slots / MEAN_SECONDS
    mu = -(SIGMA**2) / 2
    now, made = 0.0, []
    for _ in range(requests):
        now += draw.expovariate(rate)
        seconds = MEAN_SECONDS * draw.lognormvariate(mu, SIGMA)
        made.append(Arrival(now, seconds, draw.randrange(gateways), draw))
    return made


def ideal(slots: int, requests: Sequence[Arrival]) -> list[float]:
    """Response times of one queue before all slots."""
    free = [0.0] * slots
    answered = []
    for one in requests:
        begin = max(one.at, heapq.heappop(free))
        heapq.heappush(free, begin + one.seconds)
        answered.append(begin + one.seconds - one.at)
    return answered


def simulate(slots: Sequence[int], gateways: int, requests: Sequence[Arrival], choose: Choose) -> list[float]:
    fleet = Fleet(slots, gateways)
    ends: list[tuple[float, int, int]] = []
    answered = [0.0] * len(requests)

    def begin(number: int, chosen: int, now: float) -> None:
        fleet.workers[chosen].running += 1
        end = now + requests[number].seconds
        answered[number] = end - requests[number].at
        heapq.heappush(ends, (end, number, chosen))

    def end_one() -> None:
        now, number, chosen = heapq.heappop(ends)
        worker = fleet.workers[chosen]
        worker.running -= 1
        fleet.sent[requests[number].gateway][chosen] -= 1
        if worker.queue:
            begin(worker.queue.pop(0), chosen, now)

    for number, one in enumerate(requests):
        while ends and ends[0][0] <= one.at:
            end_one()
        chosen = choose(fleet, one)
        fleet.sent[one.gateway][chosen] += 1
        worker = fleet.workers[chosen]
        if worker.running < worker.slots:
            begin(number, chosen, one.at)
        else:
            worker.queue.append(number)
    while ends:
        end_one()
    return answered


def p95(seconds: Sequence[float]) -> float:
    return quantiles(seconds, n=20)[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=40_000)
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    fleets = {"16 x 4": [4] * 16, "8 x 2, 8 x 6": [2, 6] * 8}
    print(f"{'slots':14}{'gateways':10}{'rule':38}{'mean s':>8}{'p95 s':>8}{'above ideal':>13}")
    for name, slots in fleets.items():
        for gateways in (1, 3):
            requests = arrivals(sum(slots), gateways, given.requests, given.seed)
            best = ideal(sum(slots), requests)
            print(f"{name:14}{gateways:<10}{'ideal':38}{fmean(best):8.2f}{p95(best):8.2f}")
            for rule, choose in RULES.items():
                seconds = simulate(slots, gateways, requests, choose)
                above = fmean(seconds) / fmean(best) - 1
                print(
                    f"{name:14}{gateways:<10}{rule:38}{fmean(seconds):8.2f}{p95(seconds):8.2f}{above:13.1%}"
                )


if __name__ == "__main__":
    main()
