"""Graphs that tests of the executor run: the file of each is written where the test wants it."""

HEAD = """
import os, time
import numpy as np
from slipway import graph
"""

DIFFICULT = (
    HEAD
    + """
@graph.task(batch=graph.Batch(max_size=4, max_wait_ms=5))
class Risky:
    def run(self, numbers: list[int]) -> list[int]:
        if 13 in numbers:
            os._exit(3)
        if 7 in numbers:
            raise ValueError("7 is poison")
        time.sleep(0.002)
        return [one * 10 for one in numbers]

@graph.task
def picture(number: int) -> dict:
    pixels = graph.empty((300, 400), "uint8")
    pixels[:] = number % 251
    return {"pixels": pixels, "number": number}

@graph.task
def checked(pixels, number: int) -> int:
    assert (pixels == number % 251).all()
    return number

@graph.task
def slow(number: int) -> int:
    time.sleep(0.01)
    return number + 1

with graph.Graph("difficult") as g:
    made = picture(Risky()(g.input("x", int)))
    g.output(slow(checked(made["pixels"], made["number"])))
"""
)

BROKEN = (
    HEAD
    + """
@graph.task
class Model:
    def load(self, files):
        files["weights"]
    def run(self, items: list[int]) -> list[int]:
        return items

with graph.Graph("broken") as g:
    g.output(Model()(g.input("x", int)))
"""
)
