"""Charts of capacity: the load of a service against its workers, and a replay of two policies."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from django.utils.translation import gettext as _

from capacity.models import PoolMember, ServiceLoad
from capacity.planning.replay import Replay
from capacity.replays import PolicyReplay
from common import clock
from common.pages.charts import Chart, Paint, Series

PAST = timedelta(hours=1)
MOST_MOMENTS = 720
"""A picture has no more pixels for them."""


def load_charts(members: Sequence[PoolMember], *, past: timedelta = PAST) -> list[tuple[str, Chart]]:
    """Show the load and the workers of each in the recorded past, by service. One query."""
    since = clock.now() - past - timedelta(minutes=1)
    rows = ServiceLoad.objects.filter(member__in=members, at__gte=since).order_by("minute")
    samples: dict[int, list[Sequence[Any]]] = {}
    for member, found in rows.values_list("member", "samples"):
        samples.setdefault(member, []).extend(found)
    return [(one.service, _load(one.service, samples[one.pk])) for one in members if one.pk in samples]


def _load(service: str, found: Sequence[Sequence[Any]]) -> Chart:
    samples = found[:: -(-len(found) // MOST_MOMENTS) or 1]
    moments, loads, workers, online = (list(column) for column in zip(*samples, strict=True))
    series = [
        Series(_("Load"), loads, fill=True),
        Series(_("Workers"), workers, "stable", stepped=True),
    ]
    if any(number is not None for number in online):
        series.append(Series(_("Online"), online, "candidate", "dashed", stepped=True))
    times = [_moment(at) for at in moments]
    return Chart(service, times, series, caption=_("workers"), minimum=0, top_at_least=1)


def replay_chart(found: PolicyReplay) -> Chart:
    """Show the workers of both policies over the load that they were replayed on."""
    points = found.present.points
    every = -(-len(points) // MOST_MOMENTS) or 1
    return Chart(
        _("Replay"),
        [_moment(point.at) for point in points[::every]],
        [
            Series(_("Load"), [point.load for point in points[::every]], fill=True),
            _workers(_("In force"), found.present, every, "stable"),
            _workers(_("Proposed"), found.proposed, every, "candidate"),
        ],
        caption=_("workers"),
        minimum=0,
    )


def _workers(name: str, replay: Replay, every: int, paint: Paint) -> Series:
    values = [point.workers for point in replay.points[::every]]
    return Series(name, values, paint, "dashed" if paint == "candidate" else "solid", stepped=True)


def _moment(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)
