"""Statistics of repeats against simulations, and the rounds and conclusions that follow from them."""

import math
import random
from statistics import fmean

import pytest

from benchmarks import statistics
from benchmarks.conclusion import conclude
from benchmarks.load.max_rate import BrokenTargets, RateProbe, next_rate
from benchmarks.load.records import RequestRecord
from benchmarks.rounds import PastRun, next_round
from benchmarks.spec import BenchmarkObjective
from benchmarks.states import RunState


def simulated(draw: random.Random, slower: float, repeats: int = 5) -> statistics.RatioEstimate | None:
    """A comparison of p95s of runs A B B A ..., whose levels drift and change by 8 % between runs."""
    sides: tuple[list[float], list[float]] = ([], [])
    order = [(0, 1) if number % 2 == 0 else (1, 0) for number in range(repeats)]
    for place, side in enumerate(side for pair in order for side in pair):
        level = 100 * (1 + 0.01 * place) * draw.lognormvariate(0, 0.08) * (slower if side else 1.0)
        latencies = sorted(level * draw.lognormvariate(0, 0.3) for _ in range(200))
        sides[side].append(latencies[189])
    return statistics.compare(sides[1], sides[0])


@pytest.mark.parametrize(("slower", "least", "most"), [(1.0, 0.0, 0.08), (1.3, 0.85, 1.0)])
def test_differences_are_found_and_not_invented(slower: float, least: float, most: float) -> None:
    draw = random.Random(7)
    found = [simulated(draw, slower) for _ in range(200)]
    share = fmean(one is not None and one.verdict in ("higher", "lower") for one in found)
    assert least <= share <= most


def test_fewer_than_five_repeats_give_no_verdict_however_clear() -> None:
    found = statistics.compare([100, 101, 102, 101], [10, 11, 10, 11])
    assert found is not None
    assert found.verdict == "no verdict"
    assert found.ratio == pytest.approx(9.6, rel=0.1)


@pytest.mark.parametrize(("freedom", "quantile"), [(1, 12.706), (4, 2.776), (8, 2.306), (30, 2.042)])
def test_students_quantiles_are_those_of_the_tables(freedom: int, quantile: float) -> None:
    assert statistics.t_quantile(0.975, freedom) == pytest.approx(quantile, abs=0.001)


def test_holm_adjusts_step_by_step() -> None:
    assert statistics.holm({"a": 0.01, "b": 0.04, "c": 0.03}) == pytest.approx(
        {"a": 0.03, "c": 0.06, "b": 0.06}
    )


def test_warm_up_is_cut_where_there_is_one_and_never_half_of_steady_values() -> None:
    draw = random.Random(1)
    steady = [draw.gauss(100, 10) for _ in range(200)]
    cold = [100 + 400 * math.exp(-place / 8) for place in range(40)]
    assert statistics.mser5(steady) == 0
    assert 20 <= statistics.mser5(cold + steady) <= 60


def test_the_slope_of_what_is_in_flight_tells_saturation_from_noise() -> None:
    draw = random.Random(2)
    flat = [(float(place), 10 + draw.gauss(0, 2)) for place in range(20)]
    rising = [(x, y + 2 * x) for x, y in flat]
    assert abs(statistics.slope(flat)[1]) < 3
    assert statistics.slope(rising)[1] > 10


@pytest.mark.parametrize("limit", [0.3, 7.3, 180.0])
def test_the_highest_rate_is_found_within_5_percent_in_some_probes(limit: float) -> None:
    probes: list[RateProbe] = []
    while (rate := next_rate(probes, 2.0)) is not None:
        probes.append(RateProbe(rate, rate <= limit))
    found = max(one.rate for one in probes if one.holds)
    assert limit / 1.05 <= found <= limit
    assert len(probes) <= 14


def test_rounds_go_there_and_back_and_leave_out_what_failed() -> None:
    past: list[PastRun] = []
    order = []
    while cells := [one.cell for one in next_round([1, 2, 3], past, repeats=3)]:
        order.append(cells)
        past += [PastRun(cell, RunState.FAILED if cell == 3 else RunState.VALID, 1.0) for cell in cells]
    assert order == [[1, 2, 3], [2, 1], [1, 2]]


def test_invalid_runs_are_repeated_twice_at_most() -> None:
    past = [PastRun(1, RunState.INVALID)] * 2
    assert next_round([1], past, repeats=1)
    assert not next_round([1], [*past, PastRun(1, RunState.INVALID)], repeats=1)


def test_the_conclusion_names_the_best_and_how_sure_that_is() -> None:
    goodput = BenchmarkObjective()
    clear = {1: [10.0, 10.1, 9.9, 10, 10.2], 2: [8.0, 8.1, 7.9, 8, 8.2]}
    found = conclude(clear, goodput)
    assert (found.best, found.verdict, list(found.tied)) == (1, "best", [])
    assert conclude({1: clear[1], 2: [9.9, 10.2, 10, 10.1, 9.95]}, goodput).verdict == "tied"
    assert conclude({1: clear[1][:4], 2: clear[2]}, goodput).verdict == "no verdict"
    assert conclude(clear, BenchmarkObjective(kind="latency")).best == 2
    assert conclude({}, goodput).best is None


def requests_until_broken(good_share: float, chance: random.Random) -> int:
    """Return how many of 200 requests a probe takes whose target is a share of 0.95."""
    broken = BrokenTargets(lambda record: record.is_good, 0.95)
    for number in range(200):
        record = RequestRecord(0, number, 0.0, error="" if chance.random() < good_share else "timeout")
        if broken.by(record):
            return number + 1
    return 200


def test_a_probe_ends_early_where_its_targets_are_broken_and_hardly_ever_else() -> None:
    chance = random.Random(26)
    assert sum(requests_until_broken(0.95, chance) < 200 for _ in range(500)) <= 15
    assert fmean(requests_until_broken(0.5, chance) for _ in range(200)) < 30
