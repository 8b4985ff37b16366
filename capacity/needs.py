"""Needs of models that are to share a card: said by people, or measured."""

from collections.abc import Iterable, Mapping
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from accounts.states import Right
from capacity.errors import InvalidPool
from capacity.models import Pool
from capacity.planning.cards import SliceNeed
from clusters.gpu_needs import WORKERS, MeasuredNeed, measured_needs
from clusters.models import Deployment
from clusters.states import GONE
from common.actor import Actor

MEASURED_DAYS = 7


def needs_of(pool: Pool, actor: Actor, *, days: int = MEASURED_DAYS) -> list[MeasuredNeed]:
    """Return the measured need of each living service with GPUs in the pool's cluster that the actor sees."""
    rows = Deployment.objects.for_actor(actor, Right.READ).filter(cluster=pool.cluster)
    names = rows.exclude(state__in=GONE).values("service")
    return measured_needs(rows.filter(service__in=names), days=days)


def measured_by(need: MeasuredNeed) -> str:
    """Return the source of its figures in words."""
    if not need.is_known and not need.minutes:
        return _("nothing yet")
    if need.measured_by == WORKERS:
        told = ngettext(
            "its workers, in %(minutes)s minute", "its workers, in %(minutes)s minutes", need.minutes
        )
        return told % {"minutes": need.minutes}
    return {"benchmarks": _("a benchmark run"), "graphs": _("profiles of its tasks")}.get(
        need.measured_by, need.measured_by
    )


def slice_needs(
    given: Iterable[Mapping[str, Any]], actor: Actor, *, days: int = MEASURED_DAYS
) -> list[SliceNeed]:
    """Return the needs, with what was measured of a service where figures are left out.

    Raises InvalidPool.
    """
    wanted = [dict(one) for one in given]
    open_ones = {one["name"] for one in wanted if one.get("memory_mib") is None or one.get("share") is None}
    measured = {}
    if open_ones:
        rows = Deployment.objects.for_actor(actor, Right.READ).filter(service__in=open_ones)
        measured = {one.service: one for one in measured_needs(rows, days=days)}
    return [_need(one, measured.get(one["name"]), days) for one in wanted]


def _need(given: Mapping[str, Any], measured: MeasuredNeed | None, days: int) -> SliceNeed:
    memory, share = given.get("memory_mib"), given.get("share")
    if memory is None and measured is not None:
        memory = measured.memory_peak_mib
    if share is None and measured is not None:
        share = measured.share
    problem = ""
    if measured is not None and measured.gpus > 1:
        problem = _("Each worker of %(name)s needs %(gpus)s whole cards.")
    elif not memory or share is None:
        problem = _(
            "Not measured of %(name)s in the last %(days)s days: GPU memory or Busy. Give its MiB and its "
            "share of the time."
        )
    if problem or not memory or share is None:
        gpus = measured.gpus if measured else 1
        raise InvalidPool(fields={"needs": [problem % {"name": given["name"], "days": days, "gpus": gpus}]})
    return SliceNeed(given["name"], memory, share)
