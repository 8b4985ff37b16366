"""Figures of healing add up, whatever the incidents, and count what they say they count."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_health.statistics.cases import (
    GpuPresence,
    IncidentCase,
    Price,
    StatisticsWindow,
    TimeSpan,
    out_of_service,
    price_of,
)
from gpu_health.statistics.figures import Availability, DurationSummary, StatisticsReport, report
from gpu_health.statistics.prices import BadPrices, prices_of

NOON = datetime(2030, 1, 7, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
MODELS = ("NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB")
PRICES = (Price(Decimal("2.5"), gpu_model="H100"),)


def at(hours: float) -> datetime:
    return NOON + timedelta(hours=hours)


def case(**facts: object) -> IncidentCase:
    plain: dict[str, object] = {
        "incident": 1,
        "node_id": 1,
        "node": "gpu-1",
        "cluster": "prague",
        "gpu_model": MODELS[0],
        "gpus": 8,
        "fault": "xid.79",
        "state": "closed",
        "seen_at": NOON,
        "found_at": NOON + timedelta(seconds=4),
    }
    return IncidentCase(**(plain | facts))  # type: ignore[arg-type]


def told(*cases: IncidentCase, hours: float = 24, gpus: int = 16) -> StatisticsReport:
    fleet = [GpuPresence(1, MODELS[0], gpus, TimeSpan(at(-1_000)))]
    return report(cases, fleet, PRICES, StatisticsWindow(at(-1), at(hours - 1)))


hours = st.floats(-400, 400).map(lambda value: round(value, 4))


@st.composite
def cases(draw: st.DrawFn) -> IncidentCase:
    seen = at(draw(hours))
    edges = sorted(draw(st.lists(st.floats(0, 300), max_size=6)))
    spans = [
        TimeSpan(seen + begin * HOUR, seen + end * HOUR)
        for begin, end in zip(edges[::2], edges[1::2], strict=False)
    ]
    if draw(st.booleans()):
        spans.append(TimeSpan(seen + HOUR * (edges[-1] if edges else 0)))
    return case(
        node_id=draw(st.integers(1, 5)),
        gpu_model=draw(st.sampled_from(MODELS)),
        gpus=draw(st.integers(0, 8)),
        fault=draw(st.sampled_from(["xid.79", "xid.48", "ecc.uncorrectable"])),
        seen_at=seen,
        found_at=seen + draw(st.floats(-10, 600)) * timedelta(seconds=1),
        returned_at=spans[-1].end if spans else None,
        out=tuple(spans),
    )


@st.composite
def windows(draw: st.DrawFn) -> StatisticsWindow:
    since = draw(hours)
    return StatisticsWindow(at(since), at(since + draw(st.floats(0.1, 1_000))))


fleets = st.lists(
    st.builds(
        lambda model, count, begin, length: GpuPresence(
            1, model, count, TimeSpan(at(begin), at(begin + length) if length else None)
        ),
        st.sampled_from(MODELS),
        st.integers(1, 16),
        hours,
        st.sampled_from([0, 5, 200]),
    ),
    max_size=5,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(cases(), max_size=8), fleets, windows())
def test_parts_add_up_to_the_whole(
    found: list[IncidentCase], fleet: list[GpuPresence], window: StatisticsWindow
) -> None:
    whole = report(found, fleet, PRICES, window)

    for parts in (whole.by_fault, whole.by_model, whole.by_node):
        assert sum((one.lost for one in parts.values()), timedelta(0)) == whole.total.lost
        assert sum(one.incidents for one in parts.values()) == whole.total.incidents
    over_time = [lost for one in whole.moments for lost in one.lost.values()]
    assert sum(over_time, timedelta(0)) == whole.total.lost == whole.overall.lost
    for model, there in whole.availability.items():
        pieces = [one.availability[model] for one in whole.moments if model in one.availability]
        assert sum((one.total for one in pieces), timedelta(0)) == there.total
        assert there.share is None or 0 <= there.share <= 1
    assert whole.total.cost.unpriced == sum(
        (one.lost for model, one in whole.by_model.items() if "H100" not in model), timedelta(0)
    )


@settings(max_examples=40, deadline=None)
@given(st.lists(cases(), max_size=8), windows(), st.floats(0.01, 0.99))
def test_a_time_cut_in_two_loses_and_costs_as_much(
    found: list[IncidentCase], window: StatisticsWindow, share: float
) -> None:
    middle = window.since + (window.until - window.since) * share
    halves = [
        report(found, [], PRICES, one).total
        for one in (StatisticsWindow(window.since, middle), StatisticsWindow(middle, window.until))
    ]
    whole = report(found, [], PRICES, window).total

    assert sum((one.lost for one in halves), timedelta(0)) == whole.lost
    assert abs(sum(one.cost.amount for one in halves) - whole.cost.amount) < Decimal("0.000001")
    assert sum(one.incidents for one in halves) == whole.incidents
    assert sum(one.repair.count for one in halves) == whole.repair.count


@settings(max_examples=60, deadline=None)
@given(windows())
def test_the_stretches_of_a_time_follow_each_other_and_are_few(window: StatisticsWindow) -> None:
    stretches = window.buckets()

    assert (stretches[0].since, stretches[-1].until) == (window.since, window.until)
    assert all(one.until == following.since for one, following in pairwise(stretches))
    assert len(stretches) <= 400


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=40))
def test_times_lie_between_the_shortest_and_the_longest(seconds: list[float]) -> None:
    times = DurationSummary.of([timedelta(seconds=one) for one in seconds])

    assert times.mean is not None
    assert times.median is not None
    assert times.p90 is not None
    low, high = min(seconds) - 1e-3, max(seconds) + 1e-3
    assert all(low <= one <= high for one in (times.mean, times.median, times.p90))
    assert times.p90 >= times.median - 1e-3
    assert sum(one <= times.p90 + 1e-6 for one in seconds) >= 0.9 * len(seconds)


def test_times_run_from_the_faults_first_line() -> None:
    total = told(case(out=(TimeSpan(NOON + timedelta(seconds=9), at(2)),), returned_at=at(2))).total

    assert (total.detect.mean, total.quarantine.mean, total.repair.mean) == (4.0, 9.0, 7200.0)
    ahead = told(case(found_at=NOON - timedelta(seconds=5))).total
    assert ahead.detect.mean == 0.0


def test_a_machine_loses_all_its_gpus_while_it_is_out_of_service() -> None:
    answer = told(case(out=(TimeSpan(at(0), at(2)), TimeSpan(at(3), at(4)))))

    assert answer.total.lost_gpu_hours == 24.0
    assert answer.total.cost.amount == Decimal("60")
    assert answer.overall.share == pytest.approx(1 - 24 / (16 * 24))


def test_what_was_seen_before_counts_for_what_it_loses_and_for_its_return_only() -> None:
    before = case(seen_at=at(-30), out=(TimeSpan(at(-30), at(1)),), returned_at=at(1))

    total = told(before).total

    assert (total.incidents, total.detect.count, total.repair.count) == (0, 0, 1)
    assert total.lost_gpu_hours == 16.0


def test_nothing_known_of_gpus_is_no_availability() -> None:
    assert Availability("", 0, timedelta(0), timedelta(0)).share is None


def test_a_timeline_says_when_a_machine_was_out_of_service() -> None:
    entries = [
        (at(0), "proposed"),
        (at(1), "quarantining"),
        (at(2), "quarantined"),
        (at(2.5), "quarantined"),  # a person's word
        (at(3), "acting"),
        (at(4), "watching"),
        (at(5), "proposed"),
        (at(6), "quarantined"),
    ]

    assert out_of_service(entries) == (TimeSpan(at(2), at(4)), TimeSpan(at(6)))
    assert out_of_service([(at(0), "proposed"), (at(1), "cancelled")]) == ()


def test_the_price_of_a_model_counts_before_that_of_a_cluster() -> None:
    prices = prices_of(
        [
            {"per_hour": "1"},
            {"per_hour": 2, "cluster": "prague"},
            {"per_hour": "3.10", "gpu_model": "h100"},
            {"per_hour": "4", "gpu_model": "h100", "cluster": "prague"},
            {"per_hour": "5", "gpu_model": "H100 NVL"},
        ]
    )

    wanted = {
        ("prague", "NVIDIA H100 80GB HBM3"): "4",
        ("berlin", "NVIDIA H100 80GB HBM3"): "3.10",
        ("prague", "NVIDIA H100 NVL"): "5",
        ("prague", "NVIDIA A100"): "2",
        ("berlin", ""): "1",
    }
    assert {key: str(price_of(prices, *key)) for key in wanted} == wanted
    assert price_of((), "prague", "") is None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("2.49", "Give a list"),
        ([{"per_hour": "cheap"}], "give a number"),
        ([{"per_hour": True}], "give a number"),
        ([{"per_hour": "NaN"}], "give a number"),
        ([{"per_hour": -1}], "from 0 to"),
        ([{"per_hour": "1e-9"}], "six decimals"),
        ([{"per_hour": 1}, {"per_hour": 2}], "two prices of every GPU model in every cluster"),
        ([{"per_hour": 1, "gpu": "H100"}], "has per_hour and"),
        ([{"per_hour": 1, "gpu_model": 4}], "names"),
    ],
)
def test_a_price_that_cannot_be_meant_is_refused(given: object, words: str) -> None:
    with pytest.raises(BadPrices, match=words):
        prices_of(given)
