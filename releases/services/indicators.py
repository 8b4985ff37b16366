"""Indicators of a service that others than its workers count, and the counts that are pushed of them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils.translation import gettext as _

from accounts.services.rights import require
from accounts.states import Right
from common import audit
from common.actor import Actor
from common.errors import Invalid, Missing
from common.reconcile import kernel
from gateway import selectors as gateway
from gateway.errors import GatewayError, QueryRefused
from models_registry.models import Version
from releases.models import PushedCount, Service, ServiceIndicator
from releases.service_indicators import PLACEHOLDERS
from releases.states import IndicatorSource

MOST_INDICATORS = 20
LONGEST_SECONDS = 3600
AHEAD = timedelta(seconds=5)
"""So far the clock of whoever pushes may be ahead of ours."""
UTMOST = 1_000_000_000
QUERIES = ("all_query", "bad_query")
SETTINGS = ("description", *QUERIES, "url")


@dataclass(frozen=True, slots=True)
class CountedStretch:
    """Events of one version between `at` and `at + seconds`."""

    version: Version
    at: datetime
    seconds: int
    events: int
    bad: int


@dataclass(frozen=True, slots=True)
class PushResult:
    kept: int
    known: int
    """Stretches that were there already, with the same counts."""
    different: Sequence[PushedCount]
    """Stretches that were there already with other counts, which stay."""


def define_indicator(
    service: Service, *, actor: Actor, name: str, source: str, reason: str = "", **settings: str
) -> ServiceIndicator:
    """Define an indicator of the service, or change one. `settings`: description, all_query, bad_query, url.

    Raises NotAllowed, Invalid by field.
    """
    require(actor, Right.SERVICES_WRITE, service.team, service=service.name)
    columns = {name: settings.get(name, "").strip() for name in SETTINGS} | {"source": source}
    # Prometheus is asked before the transaction, which would hold a lock for as long.
    _try_queries(_checked(service, name, columns))
    with transaction.atomic():
        Service.objects.select_for_update().get(pk=service.pk)
        row = _checked(service, name, columns)
        row.defined_by, row.defined_at = actor.name, kernel.clock()
        row.save()
        detail = {"indicator": name, "source": source, "url": row.url}
        audit.record(
            actor,
            "service.indicator.define",
            subject=service,
            team_id=service.team_id,
            reason=reason,
            detail=detail,
        )
    return row


def set_indicators(
    service: Service, *, actor: Actor, indicators: Sequence[Mapping[str, str]], reason: str = ""
) -> None:
    """Let the service have these indicators and no others; what stays as it is keeps its counts.

    Raises NotAllowed, Invalid by field.
    """
    present = {row.name: row for row in ServiceIndicator.objects.filter(service=service)}
    with transaction.atomic():
        for name in present.keys() - {one["name"] for one in indicators}:
            remove_indicator(service, actor=actor, name=name, reason=reason)
        for one in indicators:
            row = present.get(one["name"])
            if row is None or any(getattr(row, name) != one.get(name, "") for name in (*SETTINGS, "source")):
                define_indicator(service, actor=actor, reason=reason, **one)


def remove_indicator(service: Service, *, actor: Actor, name: str, reason: str = "") -> None:
    """Remove it with its counts; releases that are judged by it see no more of it.

    Raises NotAllowed, Missing.
    """
    require(actor, Right.SERVICES_WRITE, service.team, service=service.name)
    with transaction.atomic():
        indicator_named(service, name).delete()
        audit.record(
            actor,
            "service.indicator.remove",
            subject=service,
            team_id=service.team_id,
            reason=reason,
            detail={"indicator": name},
        )


def indicator_named(service: Service, name: str) -> ServiceIndicator:
    """Raises Missing."""
    row = ServiceIndicator.objects.filter(service=service, name=name).first()
    if row is None:
        told = {"service": service.name, "indicator": name}
        raise Missing(_("%(service)s has no indicator %(indicator)s.") % told)
    return row


def push_counts(
    service: Service, *, actor: Actor, indicator: str, counts: Sequence[CountedStretch]
) -> PushResult:
    """Keep each stretch once: a push that comes twice, late or in another order changes nothing.

    Raises NotAllowed, Missing, Invalid by field.
    """
    require(actor, Right.RELEASES_START, service.team, service=service.name)
    row = indicator_named(service, indicator)
    if row.source != IndicatorSource.PUSHED:
        raise Invalid(fields={"indicator": [_("It is counted by Prometheus: nothing is pushed of it.")]})
    for number, one in enumerate(counts):
        if fault := _fault(service, one):
            raise Invalid(fields={f"counts.{number}": [fault]})
    wanted = {(one.version.pk, one.at): one for one in counts}
    if len(wanted) < len(counts):
        raise Invalid(fields={"counts": [_("Two of them are of one version and begin at one moment.")]})
    with transaction.atomic():
        before = _known(row, wanted)
        PushedCount.objects.bulk_create(
            [
                PushedCount(
                    indicator=row,
                    version=one.version,
                    at=one.at,
                    seconds=one.seconds,
                    events=one.events,
                    bad=one.bad,
                    pushed_at=kernel.clock(),
                )
                for key, one in wanted.items()
                if key not in before
            ],
            ignore_conflicts=True,
        )
        # Another push of the same stretch may have been first.
        after = _known(row, wanted)
    different = [
        there
        for key, there in after.items()
        if (there.events, there.bad, there.seconds)
        != (wanted[key].events, wanted[key].bad, wanted[key].seconds)
    ]
    known = len(before) - sum(1 for one in different if (one.version_id, one.at) in before)
    return PushResult(len(counts) - known - len(different), known, different)


def _known(row: ServiceIndicator, keys: Collection[tuple[int, datetime]]) -> dict[Any, PushedCount]:
    moments = [at for _version, at in keys]
    rows = PushedCount.objects.filter(
        indicator=row,
        version__in={version for version, _at in keys},
        at__gte=min(moments),
        at__lte=max(moments),
    )
    found = {(one.version_id, one.at): one for one in rows.select_related("version__model")}
    return {key: one for key, one in found.items() if key in keys}


def _fault(service: Service, one: CountedStretch) -> str:
    if one.version.model_id != service.model_id:
        return _("%(version)s is not a version of %(model)s, which %(service)s serves.") % {
            "version": one.version,
            "model": service.model,
            "service": service.name,
        }
    if not 1 <= one.seconds <= LONGEST_SECONDS:
        return _("A stretch lasts 1 to %(most)s seconds.") % {"most": LONGEST_SECONDS}
    if not 0 <= one.bad <= one.events <= UTMOST:
        return _("bad is a number from 0 to events.")
    if one.at + timedelta(seconds=one.seconds) > kernel.clock() + AHEAD:
        return _("It is not over yet: push a stretch when it has ended.")
    return ""


def _checked(service: Service, name: str, columns: Mapping[str, str]) -> ServiceIndicator:
    """Return the indicator with these columns, not saved. Raises Invalid by field."""
    row = ServiceIndicator.objects.filter(service=service, name=name).first()
    row = row or ServiceIndicator(service=service, name=name)
    for column, value in columns.items():
        setattr(row, column, value)
    try:
        row.clean_fields(exclude=["service", "defined_by"])
    except ValidationError as error:
        raise Invalid(fields=error.message_dict) from None
    others = ServiceIndicator.objects.filter(service=service).exclude(pk=row.pk).count()
    if others >= MOST_INDICATORS:
        most = _("A service has at most %(most)s indicators.") % {"most": MOST_INDICATORS}
        raise Invalid(fields={"name": [most]})
    if row.source == IndicatorSource.PUSHED:
        if unused := [one for one in (*QUERIES, "url") if columns[one]]:
            raise Invalid(fields={unused[0]: [_("Leave it empty: the counts are pushed.")]})
        return row
    for query in QUERIES:
        if not any(one in columns[query] for one in PLACEHOLDERS):
            words = _(
                "Give a query of counters with $version or $deployment in it, which tells the sides apart."
            )
            raise Invalid(fields={query: [words]})
    return row


def _try_queries(row: ServiceIndicator) -> None:
    """Ask once, with no version's name, so that an unreachable address or bad PromQL is said at once."""
    if row.source == IndicatorSource.PUSHED:
        return
    for name in QUERIES:
        query = getattr(row, name)
        for one in PLACEHOLDERS:
            query = query.replace(one, "none")
        try:
            gateway.queried(row.service.cluster, query, url=row.url, at=kernel.clock().timestamp())
        except GatewayError as error:
            field = name if isinstance(error, QueryRefused) else "url"
            raise Invalid(fields={field: [str(error)]}) from None
