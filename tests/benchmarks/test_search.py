"""The staged search on seeded surfaces of 4,320 configurations, and its prior."""

import itertools
import math
import random
from collections.abc import Callable
from statistics import median

import pytest

from benchmarks.rounds import PastRun
from benchmarks.search import bayesian
from benchmarks.search.likeness import MeasuredCell, corrected
from benchmarks.search.roofline import CPU, PEAKS, ServedLoad, ServedModel, peak_of, requests_per_second
from benchmarks.search.staged import NextLooks, SearchCell, next_looks, next_runs
from benchmarks.states import RunState

SIDES = {
    "gpu": ("H100", "A100", "L40S", "L4"),
    "tensor_parallel": (1, 2, 4),
    "batch_tokens": (512, 1024, 2048, 4096, 8192),
    "sequences": (16, 64, 256, 1024),
    "weights": ("bf16", "fp8", "int4"),
    "cache": ("bf16", "fp8", "int8"),
    "engine": ("one", "other"),
}


class Surface:
    """Goodput per price of each configuration: a product of effects with interactions, and cliffs."""

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)
        keys = [dict(zip(SIDES, values, strict=True)) for values in itertools.product(*SIDES.values())]
        effects = {(name, value): draw.gauss(0, 0.35) for name, values in SIDES.items() for value in values}
        pairs = {
            (one, a, other, b): draw.gauss(0, 0.12)
            for (one, some), (other, more) in itertools.combinations(SIDES.items(), 2)
            for a in some
            for b in more
        }
        self.cells, self.values = keys, []
        for cell in keys:
            value = sum(effects[item] for item in cell.items())
            items = list(cell.items())
            value += sum(pairs[a, x, b, y] for (a, x), (b, y) in itertools.combinations(items, 2))
            fits = not (cell["gpu"] == "L4" and cell["tensor_parallel"] == 1 and cell["weights"] == "bf16")
            self.values.append(math.exp(value) if fits else 0.0)
        self.best = max(self.values)

    def runs_until_near(
        self, cells: list[SearchCell], draw: random.Random, most: int = 2000, look: NextLooks = next_looks
    ) -> int:
        looks: list[PastRun] = []
        while len(looks) < most:
            keys = look(cells, looks)
            if not keys:
                return most
            for key in keys:
                value = self.values[key]
                state = RunState.VALID if value else RunState.FAILED
                looks.append(PastRun(key, state, value * draw.lognormvariate(0, 0.03) or None))
                if value >= 0.95 * self.best:
                    return len(looks)
        return most

    def random_until_near(self, draw: random.Random) -> int:
        order = list(range(len(self.cells)))
        draw.shuffle(order)
        return 1 + next(place for place, key in enumerate(order) if self.values[key] >= 0.95 * self.best)


def runs(
    prior: Callable[[float, random.Random], float | None], *, look: NextLooks = next_looks, surfaces: int = 20
) -> tuple[float, float]:
    """Medians over surfaces: of the search, and of cells in random order."""
    found, by_chance = [], []
    for seed in range(surfaces):
        surface, draw = Surface(seed), random.Random(1000 + seed)
        cells = [
            SearchCell(key, cell, prior(surface.values[key], draw)) for key, cell in enumerate(surface.cells)
        ]
        found.append(surface.runs_until_near(cells, draw, look=look))
        by_chance.append(surface.random_until_near(draw))
    return median(found), median(by_chance)


def test_a_prior_that_is_off_by_35_percent_finds_the_best_within_a_hundredth_of_the_grid() -> None:
    found, _ = runs(lambda value, draw: value * draw.lognormvariate(0, 0.35))
    assert found <= 43


def test_without_a_prior_it_takes_a_quarter_of_what_chance_takes() -> None:
    found, by_chance = runs(lambda value, draw: None)
    assert found <= by_chance / 4


@pytest.mark.slow
def test_optunas_estimator_takes_a_quarter_of_what_chance_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("optuna")
    monkeypatch.setattr(bayesian, "MOST_LOOKS", 2000)
    found, by_chance = runs(lambda value, draw: None, look=bayesian.next_looks, surfaces=5)
    assert found <= by_chance / 4


def test_optuna_looks_at_each_configuration_once_and_then_ends() -> None:
    pytest.importorskip("optuna")
    cells = [
        SearchCell(3 * slots + threads, {"slots": slots, "threads": threads, "engine": "vllm"})
        for slots, threads in itertools.product(range(4), range(3))
    ]
    looks: list[PastRun] = []
    while batch := bayesian.next_looks(cells, looks):
        assert batch == bayesian.next_looks(cells, looks), "the same looks give the same cells"
        looks += [PastRun(key, RunState.VALID if key else RunState.FAILED, key or None, 0.5) for key in batch]
    assert sorted(one.cell for one in looks) == list(range(12))


def test_what_was_measured_of_like_configurations_corrects_the_roofline() -> None:
    """The roofline prefers vllm's cells; those of a like model were four times slower than it said."""
    measured = [
        MeasuredCell({"engine": "vllm", "slots": 8}, measured=25, prior=100),
        MeasuredCell({"engine": "transformers", "slots": 8}, measured=80, prior=80),
    ]
    same = corrected(100, {"engine": "vllm", "slots": 8}, measured)
    near = corrected(100, {"engine": "vllm", "slots": 16}, measured)
    far = corrected(100, {"engine": "sglang", "slots": 64, "threads": 2}, measured)
    assert 25 < same < near < far < 100
    assert same < corrected(80, {"engine": "transformers", "slots": 8}, measured)
    assert corrected(100, {"engine": "vllm"}, []) == 100


def test_finalists_are_run_in_full_as_often_as_a_verdict_needs() -> None:
    cells = [SearchCell(key, {"slots": key}, float(key)) for key in range(1, 9)]
    past: list[PastRun] = []
    while batch := next_runs(cells, past, repeats=5):
        assert len({one.cell for one in batch}) == len(batch)
        past += [PastRun(one.cell, RunState.VALID, 10 - abs(one.cell - 6), one.fraction) for one in batch]
    whole = [one.cell for one in past if one.fraction == 1]
    assert sorted({cell: whole.count(cell) for cell in whole}.items()) == [(5, 5), (6, 5), (7, 5)]
    assert whole[:6] == [5, 6, 7, 7, 6, 5], "there and back"


def test_the_roofline_knows_what_does_not_fit_and_what_is_faster() -> None:
    model = ServedModel(weights_bytes=140e9, parameters=70e9, kv_bytes_per_token=330e3)
    load = ServedLoad(1000, 200, ttft_seconds=1.0, tpot_seconds=0.05)
    assert requests_per_second(model, load, PEAKS["H100"], gpus=1, slots=64) == 0
    four = requests_per_second(model, load, PEAKS["H100"], gpus=4, slots=64)
    eight = requests_per_second(model, load, PEAKS["H100"], gpus=8, slots=64)
    assert 0 < four < eight < 3 * four
    assert peak_of("NVIDIA H100 80GB HBM3") is PEAKS["H100"]
    assert peak_of("NVIDIA L40S") is PEAKS["L40S"]
    assert peak_of("") is CPU


def test_a_search_goes_on_when_its_favourites_do_not_start() -> None:
    cells = [SearchCell(key, {"slots": key}, 1 / key) for key in range(1, 20)]
    batch = next_looks(cells, [])
    following = next_looks(cells, [PastRun(key, RunState.FAILED) for key in batch])
    assert following
    assert not set(following) & set(batch)
