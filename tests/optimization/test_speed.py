"""The verdict on speed of simulated benchmarks: noise passes, a loss that counts does not."""

import random
from math import exp

from benchmarks.statistics import compare_family
from optimization.speed import FASTER_IS_HIGHER, judge_speed, ratios_of

TRIALS = 60


def share_passed(*, loss: float, noise: float = 0.03, gain: float = 1.0) -> float:
    """Return the share of benchmarks that pass, of five runs each, whose runs spread by `noise`."""
    draw = random.Random(5)
    passed = 0
    for _ in range(TRIALS):
        pairs = {
            (4.0, name): (
                [(1 - loss if is_higher else 1 / (1 - loss)) * exp(draw.gauss(0, noise)) for _ in range(5)],
                [exp(draw.gauss(0, noise)) for _ in range(5)],
            )
            for name, is_higher in FASTER_IS_HIGHER.items()
        }
        figures = [(rate, name, ratio) for (rate, name), ratio in compare_family(pairs).items()]
        passed += judge_speed(ratios_of(figures), gain=gain).is_passed
    return passed / TRIALS


def test_versions_that_are_as_fast_pass_however_little_their_runs_spread() -> None:
    assert share_passed(loss=0.0) > 0.99
    assert share_passed(loss=0.01, noise=0.001) == 1.0


def test_a_loss_that_counts_is_rejected() -> None:
    assert share_passed(loss=0.15) < 0.01


def test_a_gain_that_is_demanded_must_be_shown() -> None:
    assert share_passed(loss=-0.3, gain=1.2) > 0.9
    assert share_passed(loss=-0.05, gain=1.2) < 0.01
