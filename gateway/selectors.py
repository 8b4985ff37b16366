from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from gateway.backends import backend
from gateway.backends.base import Health
from gateway.errors import GatewayError, UnknownRoute
from gateway.history import Answered, Stretch, answered, minute_of, stretches, unpacked
from gateway.models import Route, TrafficReading
from gateway.routes import Endpoint
from gateway.traffic import TargetCounts, TargetTraffic, rates

LATELY, HALF_A_MINUTE = timedelta(minutes=3), timedelta(seconds=30)


def routes() -> QuerySet[Route]:
    """Routes that exist."""
    return Route.objects.filter(removed_at__isnull=True).order_by("service")


def route(service: str) -> Route:
    """Raises UnknownRoute."""
    found = routes().filter(service=service).first()
    if found is None:
        raise UnknownRoute(_("%(service)s has no route.") % {"service": service})
    return found


def counts(route: Route) -> Mapping[str, TargetCounts]:
    """The gateway's present reading per target. Raises UnknownRoute, GatewayUnreachable."""
    return backend().counts(route.service)


def counts_lately(service: str, *, taken_after: datetime) -> Mapping[str, TargetCounts]:
    """As `counts`, of half a second ago at most, but begun after that moment: shared by all who look.

    Asks no database. Raises UnknownRoute, GatewayUnreachable.
    """
    return backend().counts(service, taken_after=taken_after)


def traffic(
    route: Route, *, since: Mapping[str, TargetCounts], seconds: float
) -> Mapping[str, TargetTraffic]:
    """What passed per target in the `seconds` since that reading. Raises UnknownRoute, GatewayUnreachable."""
    return rates(since, counts(route), seconds)


def ready_endpoints(target: str) -> frozenset[Endpoint]:
    """Workers that the gateway itself finds ready. Raises GatewayUnreachable."""
    return backend().ready_endpoints(target)


def health() -> Health:
    """Asks the gateway now; never raises, answers within seconds."""
    return backend().health()


def traffic_history(
    service: str, *, since: datetime, until: datetime, step: timedelta = timedelta(minutes=1)
) -> list[Stretch]:
    """What each target of the service answered in stretches of about `step`, oldest first, as far as kept.

    Two queries, and as many rows read whole as there are stretches.
    """
    return stretches(
        _readings(service, since - step, until, step), expected_seconds=max(step.total_seconds(), 60.0)
    )


def _readings(
    service: str, since: datetime, until: datetime, step: timedelta
) -> list[tuple[datetime, Mapping[str, TargetCounts]]]:
    """The last reading of each step: what lies between two of them was counted, whoever slept."""
    kept = TrafficReading.objects.filter(
        route__service=service, minute__gte=minute_of(since), minute__lte=minute_of(until)
    )
    minutes = max(int(step / timedelta(minutes=1)), 1)
    ends = {minute // minutes: pk for pk, minute in kept.order_by("minute").values_list("pk", "minute")}
    rows = TrafficReading.objects.filter(pk__in=ends.values()).order_by("minute").values_list("at", "counts")
    return [(at, unpacked(counts)) for at, counts in rows]


def answered_lately(
    service: str, target: str, *, since: datetime, until: datetime, now: TargetCounts
) -> list[Answered]:
    """What the target answered, five minutes by five minutes, up to the reading `now`."""
    readings = [counts for _, counts in _readings(service, since, until, timedelta(minutes=5))]
    return answered([*readings, {target: now}], target)


def errors_lately(services: Sequence[str], *, least_requests: int, ask: bool) -> dict[str, tuple[int, int]]:
    """Requests that each service answered lately, and how many of them with an error; forced ones left out.

    Over the shortest time of HALF_A_MINUTE to LATELY in which there were `least_requests`. One query; `ask`
    the gateway for its present counts, too, a question per service: else they are up to a minute old.
    """
    now = timezone.now()
    kept = TrafficReading.objects.filter(
        route__service__in=services, route__removed_at=None, minute__gte=minute_of(now - LATELY)
    )
    readings: dict[str, list[tuple[datetime, Mapping[str, TargetCounts]]]] = {}
    for name, at, packed in kept.order_by("minute").values_list("route__service", "at", "counts"):
        readings.setdefault(name, []).append((at, unpacked(packed)))
    found = {}
    for name, ends in readings.items():
        if ask:
            with suppress(GatewayError):
                ends.append((now, backend().counts(name)))
        found[name] = _errors_until(ends, least_requests)
    return found


def _errors_until(
    readings: Sequence[tuple[datetime, Mapping[str, TargetCounts]]], least_requests: int
) -> tuple[int, int]:
    *earlier, last = readings
    requests = errors = 0
    for first in reversed(earlier):
        if last[0] - first[0] < HALF_A_MINUTE:
            continue
        for stretch in stretches([first, last], expected_seconds=LATELY.total_seconds()):
            figures = (stretch.targets or {}).values()
            requests, errors = sum(one.requests for one in figures), sum(one.errors for one in figures)
        if requests >= least_requests:
            break
    return requests, errors


def route_problems(services: Iterable[str]) -> dict[str, str]:
    """Why the gateway does not have the routes of these services as they should be; one query."""
    late = routes().filter(service__in=list(services), applied_at=None).exclude(problem="")
    return dict(late.values_list("service", "problem"))


def last_reading(service: str, *, since: datetime) -> tuple[datetime, Mapping[str, TargetCounts]] | None:
    """The latest counts that were kept since then."""
    kept = TrafficReading.objects.filter(route__service=service, minute__gte=minute_of(since))
    row = kept.order_by("-minute").values_list("at", "counts").first()
    return None if row is None else (row[0], unpacked(row[1]))
