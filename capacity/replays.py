"""A policy over the recorded load of a service, against the one in force."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from capacity.errors import InvalidPool
from capacity.models import PoolMember, ServiceLoad, active_law
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
    switch = switch_time(member, stable_target(member.service))
    try:
        present, proposed = (
            replay(
                law_with(switch, one),
                given,
                switch_seconds=switch,
                least=member.guarantee,
                most=max(1, member.most_workers),
            )
            for one in (active_law(member), law)
        )
    except PlanningError as error:
        raise InvalidPool(fields={error.field: [str(error)]}) from None
    return PolicyReplay(present, proposed, switch)


def recorded(member: PoolMember, hours: int) -> list[LoadPoint]:
    """Return the load of the last hours, oldest first."""
    rows = ServiceLoad.objects.filter(member=member, at__gte=clock.now() - timedelta(hours=hours))
    samples = rows.order_by("minute").values_list("samples", flat=True)
    return [LoadPoint(at, load) for minute in samples for at, load, *_ in minute]
