"""Releases, incidents and changes of the number of workers, as vertical lines of charts."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from itertools import pairwise

from django.db.models import Q
from django.utils.translation import gettext as _

from charts.time_range import ChartTimes
from common.actor import Actor
from common.pages.charts import Mark
from gpu_health import selectors as gpu_health
from releases.models import Release

MOST = 30


def release_marks(actor: Actor, services: Collection[str], times: ChartTimes) -> list[Mark]:
    """Mark the starts and ends of releases, rollbacks among them."""
    rows = Release.objects.for_actor(actor).filter(service__name__in=services)
    rows = rows.filter(
        Q(created_at__range=(times.since, times.until)) | Q(ended_at__range=(times.since, times.until))
    )
    found = []
    for row in rows.select_related("version").order_by("-pk")[:MOST]:
        words = {"pk": row.pk, "version": row.version.name, "state": row.get_state_display()}
        found.append(Mark(_("Release #%(pk)s of %(version)s starts") % words, row.created_at))
        if row.ended_at:
            found.append(Mark(_("Release #%(pk)s of %(version)s: %(state)s") % words, row.ended_at))
    return _within(found, times)


def incident_marks(actor: Actor, nodes: Collection[int], times: ChartTimes) -> list[Mark]:
    rows = gpu_health.incidents(actor).filter(node__in=nodes, opened_at__lte=times.until)
    rows = rows.filter(Q(ended_at=None) | Q(ended_at__gte=times.since)).select_related("node")
    found = []
    for row in rows.order_by("-pk")[:MOST]:
        words = {"machine": row.node.name, "fault": row.title}
        found.append(Mark(_("%(machine)s: incident, %(fault)s") % words, row.opened_at))
        if row.ended_at:
            found.append(Mark(_("%(machine)s: incident ended") % words, row.ended_at))
    return _within(found, times)


def scaling_marks(workers: Sequence[tuple[datetime, float | None]]) -> list[Mark]:
    """Mark where the number of workers is another than before."""
    known = [(at, round(number)) for at, number in workers if number is not None]
    changes = [
        Mark(_("Workers: %(before)s to %(after)s") % {"before": before, "after": after}, at)
        for (_at, before), (at, after) in pairwise(known)
        if before != after
    ]
    return changes[-MOST:]


def _within(marks: Iterable[Mark], times: ChartTimes) -> list[Mark]:
    return sorted((one for one in marks if times.since <= one.at <= times.until), key=lambda one: one.at)
