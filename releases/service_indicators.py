"""A release's view of its service's indicators: what was pushed and what Prometheus counts of both sides."""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from gateway import selectors as gateway
from gateway.errors import GatewayError
from releases.judge.evidence import BadRequestCount, SideCounts
from releases.judge.rules import DECLARED, IndicatorName, JudgeRules
from releases.models import PushedCount, Release, ReleaseStep, ServiceIndicator
from releases.plans.step import kinds_with
from releases.states import IndicatorSource

logger = logging.getLogger(__name__)

PLACEHOLDERS = ("$version", "$deployment")
ASK_EVERY = timedelta(seconds=15)
"""A Prometheus has nothing new more often."""
SETTLED_AFTER = timedelta(seconds=60)
"""After a change of weight, what Prometheus knows may still be from before it."""
MOST_STRETCHES = 200
MOST_SERIES = 200

Samples = Mapping[str, Sequence[Mapping[str, float]]]
"""By deployment: the counters of all events and of the bad ones, by the labels of their series."""


@dataclass(frozen=True, slots=True)
class PushedStretch:
    """A stretch of time of which both sides were pushed."""

    name: IndicatorName
    sides: SideCounts
    rows: tuple[int, int]


@dataclass(frozen=True, slots=True)
class IndicatorReadings:
    """Readings of a service's indicators at a look."""

    names: frozenset[IndicatorName] = frozenset()
    """Indicators that the service has: of these nothing that workers count is taken."""
    pushed: Sequence[PushedStretch] = ()
    queried: Mapping[str, Samples] | None = None
    """By indicator; None: Prometheus was not asked."""
    faults: Mapping[str, str] = field(default_factory=dict)
    changed_at: datetime | None = None
    """When the weight was last changed; None: it never was."""


def read_indicators(release: Release, rules: JudgeRules, at: datetime) -> IndicatorReadings:
    """Read what is new of the indicators that the plan names and the service has."""
    if not rules.indicators or not release.stable_deployment:
        return IndicatorReadings()
    rows = list(ServiceIndicator.objects.filter(service=release.service_id, name__in=rules.indicators))
    pushed = [row for row in rows if row.source == IndicatorSource.PUSHED]
    queried = [row for row in rows if row.source == IndicatorSource.PROMETHEUS]
    if not rows:
        return IndicatorReadings()
    changes = _weight_changes(release, at)
    changed_at = max((ended for _started, ended in changes), default=None)
    names = frozenset(f"{DECLARED}{row.name}" for row in rows)
    found = IndicatorReadings(names, _stretches(release, pushed, changes) if pushed and changes else ())
    asked_at = release.baseline.get("queried_at")
    if not queried or (asked_at is not None and at - datetime.fromisoformat(asked_at) < ASK_EVERY):
        return found
    samples: dict[str, Samples] = {}
    faults: dict[str, str] = {}
    for row in queried:
        try:
            samples[row.name] = _samples(release, row, at)
        except GatewayError as error:
            logger.info("Indicator %s of release %s: %s", row.name, release.pk, error)
            faults[row.name] = str(error)
    return IndicatorReadings(names, found.pushed, samples, faults, changed_at)


def _weight_changes(release: Release, at: datetime) -> list[tuple[datetime, datetime]]:
    """Return within what times the weight was changed."""
    rows = ReleaseStep.objects.filter(
        release=release, kind__in=kinds_with("changes_share"), started_at__isnull=False
    )
    times = rows.values_list("started_at", "ended_at")
    return [(started, ended or at) for started, ended in times if started is not None]


def _stretches(
    release: Release,
    indicators: Sequence[ServiceIndicator],
    changes: Sequence[tuple[datetime, datetime]],
) -> list[PushedStretch]:
    """Return what both sides have been pushed of and no release has judged; each lies within one weight."""
    rows = PushedCount.objects.filter(
        indicator__in=indicators,
        version__in=(release.version_id, release.from_version_id),
        judged_in=None,
        at__gte=min(ended for _started, ended in changes),
    )
    names = {row.pk: f"{DECLARED}{row.name}" for row in indicators}
    found = []
    ordered = rows.order_by("at", "indicator_id")[: 4 * MOST_STRETCHES]
    for (moment, indicator), group in groupby(ordered, key=lambda row: (row.at, row.indicator_id)):
        sides = {row.version_id: row for row in group}
        candidate, stable = sides.get(release.version_id), sides.get(release.from_version_id or 0)
        if candidate is None or stable is None or candidate.seconds != stable.seconds:
            continue
        until = moment + timedelta(seconds=candidate.seconds)
        if any(started < until and ended > moment for started, ended in changes):
            continue
        tallies = (BadRequestCount(one.events, one.bad) for one in (candidate, stable))
        found.append(PushedStretch(names[indicator], SideCounts(*tallies), (candidate.pk, stable.pk)))
    return found[:MOST_STRETCHES]


def _samples(release: Release, row: ServiceIndicator, at: datetime) -> Samples:
    """Raises GatewayError."""
    sides = (
        (release.candidate_deployment, release.version),
        (release.stable_deployment, release.from_version),
    )
    found = {}
    for deployment, version in sides:
        answers = []
        for query in (row.all_query, row.bad_query):
            filled = query.replace("$version", _quoted(str(version))).replace(
                "$deployment", _quoted(deployment)
            )
            series = gateway.queried(release.service.cluster, filled, url=row.url, at=at.timestamp())
            answers.append(dict(sorted(series.items())[:MOST_SERIES]))
        found[deployment] = answers
    return found


def _quoted(text: str) -> str:
    return json.dumps(text)[1:-1]


def queried_after(
    release: Release, readings: IndicatorReadings, at: datetime
) -> tuple[dict[IndicatorName, SideCounts], dict[str, Any]]:
    """Return what Prometheus has counted since the reading before, and the columns to keep for the next one.

    What it does not know is no zero: a series that is new, or
    was missing, counts from the next reading on; one that fell began anew, and its stretch is lost.
    """
    if readings.queried is None:
        return {}, {}
    kept = {"queried_at": at.isoformat(), "queried": {}, "indicator_faults": dict(readings.faults)}
    if readings.changed_at is None or at - readings.changed_at < SETTLED_AFTER:
        return {}, kept
    before: Mapping[str, Samples] = release.baseline.get("queried", {})
    kept["queried"] = readings.queried
    found = {}
    for name, samples in readings.queried.items():
        sides = [
            _increase(before.get(name, {}).get(deployment), samples.get(deployment))
            for deployment in (release.candidate_deployment, release.stable_deployment)
        ]
        if sides[0] is not None and sides[1] is not None:
            found[f"{DECLARED}{name}"] = SideCounts(sides[0], sides[1])
    return found, kept


def _increase(
    before: Sequence[Mapping[str, float]] | None, after: Sequence[Mapping[str, float]] | None
) -> BadRequestCount | None:
    """Return the increase of both counters; None where one of them cannot be told."""
    if before is None or after is None:
        return None
    sums = []
    for old, new in zip(before, after, strict=True):
        both = old.keys() & new.keys()
        if not both or any(new[key] < old[key] for key in both):
            return None
        sums.append(round(sum(new[key] - old[key] for key in both)))
    events, bad = sums
    return BadRequestCount(events, min(bad, events))


def mark_judged(release: Release, readings: IndicatorReadings) -> None:
    """Take the stretches as evidence of this release. Inside the transaction that keeps the evidence."""
    taken = [pk for one in readings.pushed for pk in one.rows]
    if taken:
        PushedCount.objects.filter(pk__in=taken).update(judged_in=release)
