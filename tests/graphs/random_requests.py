"""Graphs at random, as the planner gets them."""

import random
from typing import Any

from graphs.planning.model import BatchTime, CardSlot, PlanMachine, PlanRequest, TaskNeed, TaskOption

GIB = 2**30


def random_request(tasks: int, cards: int, seed: int, *, cores: int = 64, **asked: Any) -> PlanRequest:
    """A request whose memory and card time are scarce, on machines of up to eight cards."""
    chance = random.Random(seed)
    needs = []
    for number in range(tasks):
        base, options = chance.uniform(0.02, 0.4), []
        if chance.random() < 0.5:
            times = tuple(_time(b, base * (0.3 + 0.7 * b), 0.3 + 0.02 * b, 0) for b in (1, 2, 4, 8))
            options.append(TaskOption("cpu", times, cores=chance.choice([1, 2, 4])))
        if cards and (chance.random() < 0.8 or not options):
            speed, size = chance.uniform(3, 20), chance.uniform(1, 20)
            times = tuple(
                _time(b, base / speed * (0.7 + 0.3 * b), 1, size * (1 + 0.3 * b / 16))
                for b in (1, 2, 4, 8, 16)
            )
            options.append(TaskOption("card", times, 0.3, "A", card_time=chance.uniform(0.3, 1)))
        if not options:
            options.append(TaskOption("cpu", (_time(1, base, 0.3, 0),)))
        visits = chance.choice([1, 1, 1, 2, 5])
        needs.append(TaskNeed(f"t{number}", tuple(options), visits, item_bytes=1e5))
    edges = tuple((f"t{chance.randrange(end)}", f"t{end}") for end in range(1, tasks))
    machines = tuple(
        PlanMachine(
            f"m{at}",
            cores,
            256 * GIB,
            tuple(CardSlot(f"c{card}", "A", 40 * GIB) for card in range(min(8, cards - 8 * at))),
            bandwidth=10e9,
        )
        for at in range(max(1, (cards + 7) // 8))
    )
    return PlanRequest(tuple(needs), edges, machines, **asked)


def _time(size: int, seconds: float, memory: float, card_memory: float) -> BatchTime:
    return BatchTime(size, seconds, int(memory * GIB), int(card_memory * GIB))
