"""What the machine, its agent or the time does while it is healed: it is acted on once, and comes back."""

from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from django.db import connection, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpu_health.models import Finding, HealingSlot
from gpu_health.selectors import rule_in_force
from gpu_health.services.readings import accept_readings
from tests.gpu_health.healing import LIMITS, Ward

pytestmark = pytest.mark.django_db
STAGES = {
    *("proposed", "quarantining", "quarantined", "draining"),
    *("collecting", "acting", "verifying", "returning", "watching"),
}


def healed(ward: Ward) -> None:
    assert ward.incident.state == "closed"
    assert len(ward.programs.repaired) == 1
    assert ward.programs.ran.count("check") == 1
    assert not ward.operations.cordoned
    assert not ward.operations.taints
    assert not HealingSlot.objects.exists()


def at_each_stage(ward: Ward, begins: Callable[[], None], ends: Callable[[], None] | None = None) -> None:
    """Once at each stage, in the middle of a step; until the incident is closed. `ends`: five looks later."""
    seen: set[str] = set()
    left = 0

    def check(name: str) -> None:
        nonlocal left
        state = ward.incident.state
        if name != "writing" and state not in seen:
            seen.add(state)
            left = 5
            begins()

    ward.kernel = ward.worker(check)  # type: ignore[arg-type]
    for _ in range(400):
        if ward.incident.state == "closed":
            break
        ward.kernel.sweep()
        if ward.world.reachable:
            ward.follow()
        left -= 1
        if ends is not None and left == 0:
            ends()
        next_at = ward.incident.next_at
        ward.clock.at = max(next_at or ward.clock.at, ward.clock.at + timedelta(seconds=1))
    assert seen >= STAGES, seen


@pytest.fixture
def ward() -> Ward:
    return Ward(limits={**LIMITS, "quiet_seconds": 1, "watch_seconds": 2})


def test_while_the_api_server_is_away_at_any_stage_nothing_is_lost_or_done_twice(ward: Ward) -> None:
    ward.finding()

    def reachable(is_so: bool) -> None:
        ward.world.reachable = is_so

    at_each_stage(ward, lambda: reachable(False), lambda: reachable(True))

    healed(ward)
    assert ward.incident.last_error == ""


@pytest.mark.parametrize("jump", [timedelta(days=1), timedelta(minutes=-20)], ids=["ahead", "back"])
def test_a_clock_that_is_set_at_any_stage_does_nothing_twice(jump: timedelta) -> None:
    """Limits of time are long here: a day that is skipped is over them otherwise, as if it had passed."""
    days = {f"{name}_seconds": 20 * 24 * 3600 for name in ("drain", "action", "check")}
    ward = Ward(limits={**LIMITS, **days, "quiet_seconds": 1, "watch_seconds": 2})
    ward.finding()

    # Set back, nothing is due for a while: leases and times are of the future.
    at_each_stage(ward, lambda: ward.clock.pass_(jump), lambda: ward.clock.pass_(max(-jump, timedelta(0))))

    healed(ward)


def line(ward: Ward, number: int, *, seconds_ago: float = 0.0, fault: str = "xid.119") -> dict[str, Any]:
    return {
        "source": "kernel_log",
        "clock": "epoch",
        "gpu_bus_id": "0000:9b:00",
        "origin": f"{ward.node.boot_id}/{number}",
        "fault": fault,
        "at": ward.clock.at.timestamp() - seconds_ago,
        "raw": f"NVRM: Xid (PCI:0000:9b:00): {fault.removeprefix('xid.')}",
    }


def acting(fault: str) -> None:
    row = rule_in_force(f"default-{fault}").row
    row.mode, row.revision, row.changed_by = "act", 1, "test"
    row.save()


def told(ward: Ward, *entries: dict[str, Any]) -> None:
    accept_readings(cluster_id=ward.cluster.pk, node_uid=ward.node.uid, entries=entries)
    ward._due()


def test_an_agent_that_restarts_at_any_stage_tells_again_what_counts_once(ward: Ward) -> None:
    acting("xid.119")
    first = line(ward, 1)
    told(ward, first)

    at_each_stage(ward, lambda: told(ward, first, first))

    assert len(ward.programs.repaired) == 1
    assert Finding.objects.get().count == 1
    healed(ward)


def test_what_a_source_says_that_fails_itself_is_not_acted_on_until_it_is_well(ward: Ward) -> None:
    acting("xid.119")
    fails = line(ward, 2) | {"fault": "detector.kernel_log", "kind": "detector", "gpu_bus_id": ""}
    told(ward, line(ward, 1), fails)
    assert Finding.objects.get(fault="xid.119").outcome == "alert"
    ward.kernel.sweep()
    assert ward.programs.ran == []
    assert not ward.operations.cordoned

    told(ward, fails | {"kind": "cleared", "origin": f"{ward.node.boot_id}/3"}, line(ward, 4))

    ward.run("closed")
    healed(ward)


class Undo(Exception):
    """Rolls the rows of an example back."""


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["xid.48", "xid.63", "xid.79", "clocks.thermal_slowdown"]),
        st.sampled_from(["fault", "fault", "cleared"]),
        st.integers(0, 600),
    ),
    min_size=1,
    max_size=8,
    unique_by=lambda event: event[2],  # What is of one moment counts in the order of its arrival.
)
UNORDERED = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@settings(UNORDERED, max_examples=6)
@given(events=EVENTS, seed=st.integers(0, 99))
def test_readings_late_doubled_and_in_any_order_come_to_the_same_findings(
    ward: Ward, events: list[Any], seed: int
) -> None:
    order_does_not_matter(ward, events, seed)


@pytest.mark.slow
@pytest.mark.timeout(900)
@settings(UNORDERED, max_examples=400)
@given(events=EVENTS, seed=st.integers(0, 99))
def test_so_do_many_more_of_them(ward: Ward, events: list[Any], seed: int) -> None:
    order_does_not_matter(ward, events, seed)


def order_does_not_matter(ward: Ward, events: list[Any], seed: int) -> None:
    entries = [
        line(ward, number, seconds_ago=ago, fault=fault) | {"kind": kind}
        for number, (fault, kind, ago) in enumerate(events)
    ]
    entries.sort(key=lambda one: (one["at"], one["origin"]))
    shuffled = [*entries, *entries[::2]]
    Random(seed).shuffle(shuffled)
    assert found(ward, [entries]) == found(ward, [[one] for one in shuffled])


def found(ward: Ward, batches: list[list[dict[str, Any]]]) -> Any:
    """Return the findings that are open in the end."""
    try:
        with transaction.atomic():
            connection.atomic_blocks[-1]._from_testcase = True
            for one in batches:
                told(ward, *one)
            rows = Finding.objects.filter(state="open").order_by("fault")
            seen = list(rows.values_list("fault", "outcome", "count", "first_at", "last_at", "ladder"))
            raise Undo
    except Undo:
        return seen
