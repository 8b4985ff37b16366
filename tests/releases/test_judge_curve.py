"""The evidence as a curve."""

import itertools
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from releases.judge.curve import CurvePoint, curve_point, limits
from releases.judge.rules import IndicatorRules, JudgeRules
from releases.pages.curves import thinned
from tests.releases.conftest import Trial


def test_limits_are_drawn_where_the_judge_decides():
    rules = JudgeRules(slow=IndicatorRules(roll_back_above_ratio=1.5, promote_below_ratio=None))
    drawn = limits(rules)
    assert drawn["errors"].reject == pytest.approx(math.log10(40))
    assert drawn["errors"].accept == pytest.approx(1.0)
    assert drawn["slow"].accept is None


def test_a_curve_starts_at_nothing_and_ends_at_the_limit_it_crosses(trial: Trial):
    start = curve_point(trial.evidence, trial.rules, at=0.0)
    assert start.reject == {"errors": 0.0, "slow": 0.0}
    assert start.accept == {"errors": 0.0, "slow": 0.0}
    trial.see(errors=(50, 10, 200, 0))
    end = curve_point(trial.evidence, trial.rules, at=5.0)
    assert end.reject["errors"] > limits(trial.rules)["errors"].reject
    assert end.accept["errors"] < 0


def test_a_curve_never_leaves_the_picture(trial: Trial):
    trial.see(errors=(5000, 2500, 20000, 0), slow=(5000, 0, 20000, 9000), times=50)
    point = curve_point(trial.evidence, trial.rules, at=1.0)
    assert point.accept["errors"] == -6.0
    assert CurvePoint.from_dict(json.loads(json.dumps(point.to_dict(), allow_nan=False))) == point


@given(st.integers(0, 200), st.integers(3, 40))
def test_a_long_release_keeps_its_ends_and_an_even_grid(looks, at_most):
    times = [point["at"] for point in thinned([{"at": look} for look in range(looks)], at_most=at_most)]
    assert len(times) == min(looks, at_most)
    assert times == sorted(times)
    if looks:
        assert (times[0], times[-1]) == (0, looks - 1)
    if looks > at_most:
        gaps = [b - a for a, b in itertools.pairwise(times)]
        assert max(gaps) <= 4 * looks / at_most
