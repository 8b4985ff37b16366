"""What the page of statistics shows: figures in words, charts over time."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from common.pages import formats
from common.pages.charts import Chart, Paint, Series
from gpu_health.incident_statistics import StatisticsResult
from gpu_health.policy.presets import fault_title
from gpu_health.statistics.cases import DAY
from gpu_health.statistics.figures import HOUR, DowntimeCost, IncidentFigures

PAINTS: Sequence[Paint] = ("stable", "candidate", "good", "bad", "ink")
MOST_LINES = len(PAINTS)
MOST_MACHINES = 20


@dataclass(frozen=True, slots=True)
class StatisticsRow:
    """A row of one of the tables."""

    name: str
    url: str
    note: str
    figures: IncidentFigures
    cost: str
    availability: float | None = None
    gpus: int = 0
    gpu_hours_between: float | None = None
    """GPU hours per incident, the field's MTBF of GPUs."""
    lemon: int = 0
    """How often it was acted on, if the lemon guard stops it."""

    @property
    def lost(self) -> str:
        return hours(self.figures.lost_gpu_hours)

    @property
    def between(self) -> str:
        return hours(self.gpu_hours_between)


def hours(number: float | None) -> str:
    """`0`, `4.25`, `1,320`: three digits where it has so few before the point."""
    if number is None:
        return formats.NO_VALUE
    return formats.three_digits(number) if abs(number) < 1_000 else formats.count(round(number))


def money(cost: DowntimeCost, currency: str) -> str:
    """`USD 1,234.50`; a dash where nothing that was lost has a price."""
    if not cost.is_known:
        return formats.NO_VALUE
    amount = f"{currency}{formats.SPACE}{cost.amount.quantize(Decimal('0.01')):,}"
    return _("%(amount)s and more") % {"amount": amount} if cost.unpriced else amount


def fault_rows(answer: StatisticsResult, url_of: Any) -> list[StatisticsRow]:
    return [
        StatisticsRow(
            fault_title(fault), url_of(fault=fault), fault, found, money(found.cost, answer.currency)
        )
        for fault, found in answer.report.by_fault.items()
    ]


def model_rows(answer: StatisticsResult, url_of: Any) -> list[StatisticsRow]:
    """Return a row for every GPU model, also those without an incident."""
    none = IncidentFigures.none()
    rows = []
    known = answer.report.availability
    for model in sorted({*known, *answer.report.by_model}, key=lambda one: (-_gpus(known, one), one)):
        found = answer.report.by_model.get(model, none)
        there = known.get(model)
        rows.append(
            StatisticsRow(
                model or _("not known"),
                url_of(gpu_model=model) if model else "",
                "",
                found,
                money(found.cost, answer.currency),
                availability=there.share if there else None,
                gpus=there.gpus if there else 0,
                gpu_hours_between=there.total / HOUR / found.incidents if there and found.incidents else None,
            )
        )
    return rows


def machine_rows(answer: StatisticsResult) -> list[StatisticsRow]:
    """Lemons first, then those with the most incidents."""
    found = sorted(answer.report.by_node.items(), key=lambda item: item[0] not in answer.lemons)
    return [
        StatisticsRow(
            answer.nodes[pk].node,
            f"/fleet/nodes/{pk}/",
            answer.nodes[pk].cluster,
            figures,
            money(figures.cost, answer.currency),
            lemon=answer.lemons.get(pk, 0),
        )
        for pk, figures in found[:MOST_MACHINES]
    ]


def availability_chart(answer: StatisticsResult) -> Chart:
    moments = answer.report.moments
    known = answer.report.availability
    models = sorted(known, key=lambda one: -_gpus(known, one))[:MOST_LINES]
    return Chart(
        title=_("Availability"),
        caption=_("share of GPU time in service, by GPU model"),
        moments=[one.window.since for one in moments],
        series=[
            Series(
                name=model or _("not known"),
                values=[
                    one.availability[model].share if model in one.availability else None for one in moments
                ],
                paint=paint,
                stepped=True,
            )
            for model, paint in zip(models, PAINTS, strict=False)
        ],
        unit="percent",
        maximum=1.0,
        since=answer.question.window.since,
        until=answer.question.window.until,
    )


def loss_chart(answer: StatisticsResult) -> Chart:
    """The faults that cost most; the others together."""
    moments = answer.report.moments
    costly = sorted(answer.report.by_fault.items(), key=lambda item: -item[1].lost)
    faults = [fault for fault, found in costly if found.lost]
    shown, others = faults, list[str]()
    if len(faults) > MOST_LINES:
        shown, others = faults[: MOST_LINES - 1], faults[MOST_LINES - 1 :]
    lines = [(fault_title(one), [one]) for one in shown]
    if others:
        lines.append((_("other faults"), others))
    return Chart(
        title=_("Lost GPU hours"),
        caption=_("per %(step)s, by fault") % {"step": _step(answer.question.window.step)},
        moments=[one.window.since for one in moments],
        series=[
            Series(
                name=name,
                values=[_hours(one.lost.get(fault) for fault in faults) for one in moments],
                paint=paint,
                stepped=True,
            )
            for (name, faults), paint in zip(lines, PAINTS, strict=False)
        ],
        minimum=0.0,
        since=answer.question.window.since,
        until=answer.question.window.until,
    )


def _step(length: timedelta) -> str:
    if length % DAY:
        return ngettext("hour", "%(count)s hours", length // HOUR) % {"count": length // HOUR}
    return ngettext("day", "%(count)s days", length // DAY) % {"count": length // DAY}


def _hours(lengths: Iterable[timedelta | None]) -> float:
    return sum((one for one in lengths if one is not None), timedelta(0)) / HOUR


def _gpus(known: Mapping[str, Any], model: str) -> int:
    return known[model].gpus if model in known else 0
