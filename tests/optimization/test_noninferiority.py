"""The accuracy gate on simulated pairs, as its promises are written."""

import random

from optimization.noninferiority import estimate, judge, overall

MARGIN = 0.01


def pairs(draw: random.Random, items: int, *, drop: float, flips: float = 0.04) -> list[int]:
    """Return differences of right answers: `flips` of them flip, `drop` more to wrong than to right."""
    to_wrong, to_right = (flips + drop) / 2, (flips - drop) / 2
    return draw.choices((-1, 1, 0), (to_wrong, to_right, 1 - flips), k=items)


def share_passed(items: int, *, drop: float) -> float:
    draw = random.Random(7)
    found = [estimate(pairs(draw, items, drop=drop), margin=MARGIN, is_binary=True) for _ in range(1_000)]
    return sum(one.verdict == "passed" for one in found) / len(found)


def test_a_drop_of_the_margin_passes_in_at_most_7_percent_of_checks() -> None:
    assert share_passed(1_000, drop=MARGIN) <= 0.07


def test_equal_models_pass_at_4000_items() -> None:
    assert share_passed(4_000, drop=0.0) >= 0.9


def test_too_few_items_say_how_many_would_do() -> None:
    draw = random.Random(1)
    found = estimate(pairs(draw, 300, drop=0.0), margin=MARGIN, is_binary=True)
    assert found.verdict == "needs_items"
    assert found.needed_items is not None
    assert 1_000 < found.needed_items < 20_000
    enough = estimate(pairs(draw, 3 * found.needed_items, drop=0.0), margin=MARGIN, is_binary=True)
    assert enough.verdict == "passed"


def test_no_flip_at_all_needs_the_rule_of_three() -> None:
    assert estimate([0] * 100, margin=MARGIN, is_binary=True).verdict == "needs_items"
    assert estimate([0] * 400, margin=MARGIN, is_binary=True).verdict == "passed"


def test_a_large_drop_fails_and_decides_for_all_metrics() -> None:
    draw = random.Random(2)
    found = judge(
        {
            "accuracy": pairs(draw, 2_000, drop=0.035),
            "perplexity": [0.001 * draw.random() for _ in range(200)],
        },
        margins={"accuracy": MARGIN, "perplexity": 0.02},
        binary=frozenset({"accuracy"}),
    )
    assert [found[name].verdict for name in ("accuracy", "perplexity")] == ["failed", "passed"]
    assert overall(found) == "failed"
