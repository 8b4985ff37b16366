"""A policy over the recorded load of a service, against the one in force."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from capacity.errors import InvalidPool
from capacity.group_looks import EXPECTED_SWITCH_SECONDS
from capacity.models import PoolMember, ServiceGroups, ServiceLoad, active_law
from capacity.observing import stable_target
from capacity.planning.errors import PlanningError
from capacity.planning.policies import law_with
from capacity.planning.replay import LoadPoint, Replay, replay
from capacity.switch_times import switch_time
from common import clock

LONGEST_HOURS = 168
MOST_POINTS = 70_000


@dataclass(frozen=True)
class PolicyReplay:
    """Both policies over the same load. switch_seconds: with which both were replayed."""

    present: Replay
    proposed: Replay
    switch_seconds: float


def replay_policy(
    member: PoolMember, law: Mapping[str, Any], *, hours: int = 24, points: Iterable[Sequence[float]] = ()
) -> PolicyReplay:
    """Run the policy over the last hours, or over `points` of seconds and load in workers, beside the one in
    force. Raises InvalidPool naming the field.
    """
    given = [LoadPoint(at, load) for at, load in points] or recorded(member, hours)
    switch, least, most = _world(member)
    try:
        present, proposed = (
            replay(
                law_with(switch, one),
                given,
                switch_seconds=switch,
                least=least,
                most=most,
            )
            for one in (active_law(member), law)
        )
    except PlanningError as error:
        raise InvalidPool(fields={error.field: [error.reason]}) from None
    return PolicyReplay(present, proposed, switch)


def _world(member: PoolMember) -> tuple[float, int, int]:
    """Return the switch time and the fewest and most workers that the law decides about.

    With groups these are the workers online, of those that the service has: the pool gives it no others as
    long as it is guaranteed as many as it may have.
    """
    groups: ServiceGroups | None = getattr(member, "groups", None)
    most = max(1, member.most_workers)
    if groups is None or member.guarantee < most:
        return switch_time(member, stable_target(member.service)), member.guarantee, most
    switch = EXPECTED_SWITCH_SECONDS if groups.switch_seconds is None else groups.switch_seconds
    return switch, groups.least_online, most


def recorded(member: PoolMember, hours: int) -> list[LoadPoint]:
    """Return the load of the last hours, oldest first."""
    rows = ServiceLoad.objects.filter(member=member, at__gte=clock.now() - timedelta(hours=hours))
    samples = rows.order_by("minute").values_list("samples", flat=True)
    return [LoadPoint(at, load) for minute in samples for at, load, *_ in minute]
