import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from django.db.models import F, Max, Q, QuerySet
from django.utils.translation import gettext as _

from clusters.models import Cluster
from common import clock
from common.sealed import CannotUnseal
from gateway.backends.base import GatewayHealth
from gateway.backends.configured import (
    backends_of,
    figures_of_workers,
    is_elsewhere,
    metrics_of,
    other_prometheus,
    prometheus_of,
    traffic_metrics_of,
)
from gateway.errors import GatewayError, InvalidGateway, UnknownRoute
from gateway.history import (
    IntervalCounts,
    KeptReading,
    ServiceAnswers,
    TrafficInterval,
    answered,
    answers_of_all,
    hour_of,
    last_of_each,
    minute_of,
    stretches,
    unpacked,
    unpacked_hour,
)
from gateway.load_hours import RecordedLoad, load_of
from gateway.models import AbilityRoute, Gateway, LoadHour, Route, TrafficReading
from gateway.scraped_series import ScrapedSeries
from gateway.states import COUNT_ANSWERS_ALONE, ON_A_HOST, MetricsKind
from gateway.traffic import TargetCounts
from gateway.worker_figures import WorkerFigures, WorkerInterval, between, unpacked_figures

LONG_PAST_SECONDS = 8.0
UNSEEN_AFTER = timedelta(minutes=1)
"""Its host looks every 15 s at least."""
LATELY, HALF_A_MINUTE = timedelta(minutes=3), timedelta(seconds=30)


def routes() -> QuerySet[Route]:
    """Routes that exist."""
    rows = Route.objects.select_related("gateway__cluster")
    return rows.filter(removed_at__isnull=True).order_by("service")


def route(service: str) -> Route:
    """Raises UnknownRoute."""
    found = routes().filter(service=service).first()
    if found is None:
        raise UnknownRoute(_("%(service)s has no route.") % {"service": service})
    return found


def counts(route: Route) -> Mapping[str, TargetCounts]:
    """Return the counts per target up to now. Raises UnknownRoute, NoGateway, GatewayUnreachable."""
    return metrics_of(route.gateway).counts(route.service)


def counts_lately(cluster_id: int, service: str, *, taken_after: datetime) -> Mapping[str, TargetCounts]:
    """Return counts at most half a second old that were begun after that moment; all callers share them.

    One small query. Raises UnknownRoute, NoGateway, GatewayUnreachable.
    """
    return traffic_metrics_of(cluster_id).counts(service, taken_after=taken_after)


def worker_figures(service: str) -> Mapping[str, WorkerFigures]:
    """Ask the workers of each of its deployments for the figures that they count themselves.

    Raises UnknownRoute, GatewayUnreachable.
    """
    return figures_of_workers(route(service))


def scraped(cluster: Cluster, selectors: Sequence[str], *, seconds: int, until: float) -> list[ScrapedSeries]:
    """Return what the Prometheus of the cluster's gateway scraped in so many seconds; nothing where it has
    none. `selectors`: PromQL's, without braces. Raises GatewayUnreachable, InvalidGateway.
    """
    if (found := prometheus_of(cluster)) is None:
        return []
    return [one for each in selectors for one in found.scraped(each, seconds=seconds, until=until)]


def queried(cluster: Cluster, query: str, *, url: str = "", at: float) -> dict[str, float]:
    """Return the samples of an instant query by their labels as JSON. `url`: of another Prometheus than the
    one by which the cluster's gateway counts. Raises GatewayUnreachable, InvalidGateway.
    """
    found = other_prometheus(url) if url else prometheus_of(cluster)
    if found is None:
        raise InvalidGateway(_("The gateway of %(cluster)s counts by no Prometheus.") % {"cluster": cluster})
    return {
        json.dumps(one["metric"], sort_keys=True): float(one["value"][1])
        for one in found.ask(query, kind="vector", at=at)
    }


def long_past(
    query: str, *, url: str, token: str, since: datetime, until: datetime, step: timedelta
) -> list[ScrapedSeries]:
    """Return a value for each step of what a Prometheus has of a query, from whole steps since 1970. Raises
    GatewayUnreachable, InvalidGateway.
    """
    span = f"[{int((until - since).total_seconds())}s:{int(step.total_seconds())}s]"
    prometheus = other_prometheus(url, token=token, within_seconds=LONG_PAST_SECONDS)
    found = prometheus.ask(f"({query}){span}", kind="matrix", at=until.timestamp())
    return [
        ScrapedSeries(one["metric"], [(float(at), float(value)) for at, value in one["values"]])
        for one in found
    ]


def gateways() -> QuerySet[Gateway]:
    """Return the gateways of existing clusters."""
    rows = Gateway.objects.filter(cluster__removed_at=None)
    return rows.select_related("cluster").order_by("cluster__name")


def gateways_seen_lately() -> list[Gateway]:
    """Return the gateways whose state is known."""
    rows = gateways().filter(seen_at__gt=clock.now() - UNSEEN_AFTER)
    return [row for row in rows if row.kind in ON_A_HOST or not row.cluster.problem]


def routes_through(cluster: Cluster) -> list[str]:
    """Describe what the cluster's gateway still sends to workers."""
    rows = Route.objects.filter(gateway__cluster=cluster, removed_at=None)
    names = rows.order_by("service").values_list("service", flat=True)
    abilities = AbilityRoute.objects.filter(gateway__cluster=cluster).values_list("name", flat=True)
    return [
        *(_("the route of service %(service)s") % {"service": name} for name in names),
        *(_("the address of ability %(ability)s") % {"ability": name} for name in abilities),
    ]


def has_ability(name: str) -> bool:
    """Return whether an ability has the address `/<name>/`."""
    return AbilityRoute.objects.filter(name=name).exists()


def gateway_of(cluster: Cluster) -> Gateway | None:
    return gateways().filter(cluster=cluster).first()


def lacks(cluster_id: int) -> str:
    """Return in words what keeps the cluster's gateway from having routes as releases need them, as last
    seen; empty: nothing.
    """
    return Gateway.objects.filter(cluster_id=cluster_id).values_list("lacks", flat=True).first() or ""


def cannot(cluster_id: int) -> dict[str, str]:
    """Return what steps of plans may ask of the cluster's gateway and it cannot, with the reason, as last
    seen.
    """
    return Gateway.objects.filter(cluster_id=cluster_id).values_list("cannot", flat=True).first() or {}


def counted_by(cluster_id: int) -> str:
    """Who counts the traffic of this cluster, in words; empty while it has no gateway."""
    found = Gateway.objects.filter(cluster_id=cluster_id).values_list("metrics", "settings").first()
    if found is None:
        return ""
    return who_counts(*found)


def not_counted(cluster_id: int) -> str:
    """Describe errors of requests in this cluster that nobody counts; empty: none, or no gateway."""
    kind = Gateway.objects.filter(cluster_id=cluster_id).values_list("metrics", flat=True).first()
    return not_counted_by(kind or "")


def clusters_that_miss_errors(teams: Iterable[int]) -> list[str]:
    """Names of the clusters open to these teams where `not_counted` says something."""
    rows = gateways().filter(metrics__in=COUNT_ANSWERS_ALONE)
    rows = rows.filter(Q(cluster__team=None) | Q(cluster__team__in=list(teams)))
    return list(rows.values_list("cluster__name", flat=True))


def not_counted_by(metrics: str) -> str:
    if metrics not in COUNT_ANSWERS_ALONE:
        return ""
    return _(
        "Errors of the gateway itself (503 without a healthy worker, 404 without a route) are not counted: "
        "workers count only what reaches them. The analysis cannot see them."
    )


def who_counts(metrics: str, settings: Mapping[str, Any]) -> str:
    """Describe who counts, by a gateway's row."""
    if metrics == MetricsKind.PROMETHEUS:
        prometheus = settings.get("prometheus")
        url = prometheus.get("url", "") if isinstance(prometheus, dict) else ""
        return _("Counted by the workers, read from Prometheus (%(url)s)") % {"url": url}
    if metrics == MetricsKind.WORKERS:
        return _("Counted by the workers, read from each")
    if metrics == MetricsKind.ENVOY:
        return _("Counted by the Envoys of the Gateway")
    return _("Counted by the gateway")


def public_urls(clusters: Iterable[int]) -> dict[int, str]:
    """Return the public URLs of these clusters' gateways, by the cluster's id; one query."""
    return {row.cluster_id: public_url(row) for row in gateways().filter(cluster__in=set(clusters))}


def public_url(gateway: Gateway) -> str:
    """Return its URL without a slash at the end; empty while its settings are wrong."""
    try:
        return backends_of(gateway).public_url or gateway.host_url
    except InvalidGateway:
        return ""


def secret_names(gateway: Gateway) -> list[str]:
    """Return the names of the secrets that are set; none where they cannot be read any more."""
    try:
        return sorted(gateway.secrets)
    except CannotUnseal:
        return []


def health() -> GatewayHealth:
    """Ask all gateways for their health; never raises."""
    seen = [(row, _health_of(row)) for row in gateways()]
    if len(seen) == 1:
        return seen[0][1]
    shown = [f"{row.cluster.name}: {one.detail}" for row, one in seen if not one.ok]
    if shown:
        return GatewayHealth(False, " ".join(shown))
    return GatewayHealth(True, _("%(number)d gateways are healthy.") % {"number": len(seen)})


def _health_of(gateway: Gateway) -> GatewayHealth:
    if is_elsewhere(gateway):
        return _health_told_by(gateway)
    try:
        return backends_of(gateway).traffic.health()
    except InvalidGateway as error:
        return GatewayHealth(False, str(error))


def _health_told_by(gateway: Gateway) -> GatewayHealth:
    """Return the health written down by its host."""
    seen_at = gateway.seen_at
    if seen_at is None or clock.now() - seen_at > UNSEEN_AFTER:
        return GatewayHealth(
            False, gateway.detail or _("The host %(host)s has not seen it.") % {"host": gateway.host}
        )
    return GatewayHealth(gateway.is_healthy, gateway.detail)


def traffic_history(
    service: str, *, since: datetime, until: datetime, step: timedelta = timedelta(minutes=1)
) -> list[TrafficInterval]:
    """Return the traffic of each target of the service in intervals of about `step`, oldest first, as far as
    kept.

    One query, and as many rows read whole as there are intervals.
    """
    return stretches(
        _readings(service, since - step, until, step), expected_seconds=max(step.total_seconds(), 60.0)
    )


def service_load(service: str, *, since: datetime) -> RecordedLoad | None:
    """Return the load that the service's workers counted, by hours; None: they counted none. One query."""
    rows = LoadHour.objects.filter(route__service=service, hour__gte=hour_of(since)).order_by("hour")
    return load_of(rows.values_list("document", flat=True))


def _readings(
    service: str, since: datetime, until: datetime, step: timedelta
) -> list[tuple[datetime, Mapping[str, TargetCounts]]]:
    """The last reading of each step: what lies between two of them was counted, whoever slept."""
    return [(at, unpacked(counts)) for at, counts in _kept_by_step(service, since, until, step, "counts")]


def worker_history(
    service: str, *, since: datetime, until: datetime, step: timedelta = timedelta(minutes=1)
) -> dict[str, list[WorkerInterval]]:
    """Return what the workers of each target did in stretches of about `step`, oldest first, as far as kept;
    empty where no worker runs a team's own code. One query.
    """
    rows = _kept_by_step(service, since - step, until, step, "figures")
    readings = [(at, unpacked_figures(figures)) for at, figures in rows]
    found: dict[str, list[WorkerInterval]] = {}
    for (began_at, before), (at, after) in pairwise(readings):
        for target, figures in after.items():
            interval = between(began_at, before.get(target), at, figures)
            if interval is not None:
                found.setdefault(target, []).append(interval)
    return found


def _kept_by_step(
    service: str, since: datetime, until: datetime, step: timedelta, column: str
) -> list[tuple[datetime, Any]]:
    """The last reading of each step."""
    first, last = minute_of(since), minute_of(until)
    kept = TrafficReading.objects.filter(route__service=service, minute__gte=first)
    minutes = max(int(step / timedelta(minutes=1)), 1)
    steps = kept.filter(minute__lte=last).order_by().values(step=F("minute") / minutes)
    rows = kept.filter(minute__in=steps.annotate(last=Max("minute")).values("last"))
    found = [KeptReading(*row) for row in rows.values_list("minute", "at", "counts", "figures")]
    if minutes < 60:
        packed = kept.filter(minute__lt=last + 60).exclude(earlier=None)
        for hour in packed.values_list("earlier", flat=True):
            found += [one for one in unpacked_hour(hour or b"") if first <= one.minute <= last]
    return [(one.at, getattr(one, column)) for one in last_of_each(found, minutes)]


def answers_since(service: str, since: datetime, *, fine_since: datetime) -> list[ServiceAnswers]:
    """Return the answers of a service from the reading of that minute on, oldest first: each hour, and each
    minute after `fine_since`. Two queries.
    """
    now = clock.now()
    readings = []
    if since < fine_since:
        readings = _readings(service, since, fine_since, timedelta(hours=1))
    readings += _readings(service, max(since, fine_since), now, timedelta(minutes=1))
    return answers_of_all(readings)


def answered_lately(
    service: str, target: str, *, since: datetime, until: datetime, now: TargetCounts
) -> list[IntervalCounts]:
    """Return the target's answers in intervals of five minutes, up to the reading `now`."""
    readings = _readings(service, since, until, timedelta(minutes=5))
    return answered([*readings, (until, {target: now})], target)


def errors_lately(services: Sequence[str], *, least_requests: int, ask: bool) -> dict[str, tuple[int, int]]:
    """Requests that each service answered lately, and how many of them with an error; forced ones left out.

    Over the shortest time of HALF_A_MINUTE to LATELY in which there were `least_requests`. One query; `ask`
    for the present counts, too, another query and a question per service: else they are up to a minute old.
    """
    now = clock.now()
    kept = TrafficReading.objects.filter(
        route__service__in=services, route__removed_at=None, minute__gte=minute_of(now - LATELY)
    )
    readings: dict[str, list[tuple[datetime, Mapping[str, TargetCounts]]]] = {}
    for name, at, packed in kept.order_by("minute").values_list("route__service", "at", "counts"):
        readings.setdefault(name, []).append((at, unpacked(packed)))
    asked = {row.service: row for row in routes().filter(service__in=readings)} if ask else {}
    found = {}
    for name, ends in readings.items():
        if name in asked:
            with suppress(GatewayError):
                ends.append((now, counts(asked[name])))
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
