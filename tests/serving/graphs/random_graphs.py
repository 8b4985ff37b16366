"""Random graphs over whole numbers: fan-out, joins, fields, conditions, tasks that several nodes call.

As a file it is the graph of the seed in `GRAPH_SEED`.
"""

import os
import random
from typing import Any

import numpy as np

from slipway import graph


@graph.task
def plus(x: int, y: int = 1) -> int:
    if (x + y) % 97 == 13:
        raise ValueError(f"{x + y} is poison")
    return x + y


@graph.task(batch=graph.Batch(max_size=4, max_wait_ms=1))
class Double:
    def run(self, numbers: list[int]) -> list[int]:
        if any(one % 89 == 11 for one in numbers):
            raise ValueError("one of the batch is poison")
        return [2 * one % 10_007 for one in numbers]


@graph.task
def spread(x: int) -> list[int]:
    return [x + more for more in range(x % 4)]


@graph.task
def total(numbers: list[int]) -> int:
    return sum(numbers) % 10_007


@graph.task(batch=graph.Batch(max_size=3, max_wait_ms=0))
class Picture:
    def run(self, numbers: list[int]) -> list[dict[str, Any]]:
        return [{"pixels": filled(one), "number": one, "parts": [one, one // 2]} for one in numbers]


def filled(number: int) -> Any:
    pixels = graph.empty((42, 50), "int64")
    pixels[:] = number
    return pixels


@graph.task
def look(pixels: Any, number: int) -> int:
    assert pixels.shape == (42, 50)
    assert (pixels == pixels[0, 0]).all()
    return int(np.add(pixels[41, 49], number)) % 10_007


def build(seed: int) -> graph.Graph:
    draw = random.Random(seed)
    with graph.Graph(f"random-{seed}") as g:
        double, picture = Double(), Picture()
        numbers: list[Any] = [g.input("x", int)]
        used: set[int] = set()

        def some() -> Any:
            at = draw.randrange(max(0, len(numbers) - 4), len(numbers))
            used.add(at)
            return numbers[at]

        for _ in range(draw.randint(2, 9)):
            kind = draw.randrange(7)
            if kind == 0:
                numbers.append(plus(some(), some()))
            elif kind == 1:
                numbers.append(double(some()))
            elif kind == 2:
                numbers.append(total(double.each(spread(some()))))
            elif kind == 3:
                made = picture(some())
                numbers.append(look(made["pixels"], made["number"]))
            elif kind == 4:
                numbers.append(plus.when(spread(some()), otherwise=some())(some(), draw.randint(1, 9)))
            elif kind == 5:
                numbers.append(total(plus.each(picture(some())["parts"], some())))
            else:
                numbers.append(double.when(some(), otherwise=draw.randint(0, 9))(some()))
        ends = [one for at, one in enumerate(numbers) if at not in used and at]
        for number, one in enumerate(ends):
            g.output(one, f"end{number}")
        if 0 not in used:
            g.output(plus(numbers[0]), "unused")
    return g


if seed := os.environ.get("GRAPH_SEED"):
    g = build(int(seed))
