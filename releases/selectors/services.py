"""Named reads of services: what serves, how it fares, what it answered."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db.models import QuerySet
from django.utils.translation import gettext_noop

from accounts.states import Right
from common.actor import Actor
from gateway import selectors as gateway
from models_registry.references import VersionReferences
from releases.condition import STATES, ServiceCondition
from releases.conditions import conditions
from releases.models import Release, Service, SlowThreshold
from releases.selectors.releases import weights
from releases.states import IN_MOTION
from releases.succession import with_succession
from releases.summaries import ServiceSummary

SERVICE_STATES = STATES


def slow_thresholds(service: Service) -> QuerySet[SlowThreshold]:
    """The service's, newest first: what was learnt, and what people have set."""
    return SlowThreshold.objects.filter(service=service).order_by("-pk")


def traffic_of(
    service: Service, *, since: datetime, until: datetime, step: timedelta
) -> list[dict[str, Any]]:
    """Return what each version of the service answered, a point per stretch of about `step`, oldest first."""
    stretches = gateway.traffic_history(service.name, since=since, until=until, step=step)
    named = {name for stretch in stretches for name in stretch.targets or {}}
    rows = Release.objects.filter(service=service, candidate_deployment__in=named)
    versions = {row.candidate_deployment: str(row.version) for row in rows.select_related("version__model")}
    return [
        {
            "began_at": stretch.began_at,
            "at": stretch.at,
            "versions": None
            if stretch.targets is None
            else [
                {
                    "deployment": name,
                    "version": versions.get(name),
                    "requests": figures.requests,
                    "errors": figures.errors,
                    "abandoned": figures.abandoned,
                    "requests_per_s": round(figures.requests_per_s, 3),
                    "error_share": figures.error_share,
                    "p50_ms": figures.latency_ms.p50,
                    "p95_ms": figures.latency_ms.p95,
                    "p99_ms": figures.latency_ms.p99,
                    "first_byte_p95_ms": figures.first_byte_ms.p95,
                }
                for name, figures in sorted(stretch.targets.items())
            ],
        }
        for stretch in stretches
    ]


def services_for(actor: Actor) -> QuerySet[Service]:
    rows = Service.objects.for_actor(actor).select_related(
        "team", "model", "cluster", "stable_version__model"
    )
    return rows.defer("stable_version__config", "stable_version__scan")


def release_of(service: Service) -> Release | None:
    """The one in motion."""
    return releases_in_motion([service]).get(service.pk)


def releases_in_motion(services: Iterable[Service]) -> dict[int, Release]:
    """Return the releases in motion by service id."""
    rows = Release.objects.filter(service__in=list(services), state__in=IN_MOTION)
    return {release.service_id: release for release in rows.select_related("version__model")}


def summarised(services: Sequence[Service]) -> Sequence[Service]:
    """The services, each with a `summary` (ServiceSummary); six queries for all of them."""
    moving = releases_in_motion(services)
    seen = conditions(services, moving) if services else {}
    urls = gateway.public_urls(service.cluster_id for service in services)
    for service in services:
        url = urls.get(service.cluster_id, "")
        service.summary = _summary(service, moving.get(service.pk), seen[service.pk], url)
    return services


def services_in_trouble(actor: Actor) -> list[Service]:
    """Degraded and failing ones that the actor may do something about, each with its summary."""
    rows = Service.objects.for_actor(actor, Right.RELEASES_OPERATE).select_related("stable_version__model")
    shown = summarised(list(rows.order_by("name")))
    return [one for one in shown if one.summary.state in ("failing", "degraded")]


def conditions_now() -> dict[str, ServiceCondition]:
    """Return the conditions of all services of all teams, by name."""
    services = list(Service.objects.order_by("name"))
    found = conditions(services, releases_in_motion(services)) if services else {}
    return {one.name: found[one.pk] for one in services}


def _summary(
    service: Service, release: Release | None, condition: ServiceCondition, gateway_url: str
) -> ServiceSummary:
    stable = service.stable_version
    return ServiceSummary(
        state=condition.state,
        reason=condition.reason,
        stable=str(stable) if stable else None,
        candidate=str(release.version) if release else None,
        candidate_name=release.version.name if release else "",
        release_id=release.pk if release else None,
        weights=weights(release),
        url=f"{gateway_url}/{service.name}/" if gateway_url else "",
    )


def history(service: Service, *, limit: int = 50) -> QuerySet[Release]:
    return (
        with_succession(Release.objects.filter(service=service))
        .select_related("version__model", "from_version__model")
        .order_by("-created_at")[:limit]
    )


STABLE_VERSIONS = VersionReferences(
    Service.objects.exclude(stable_version=None),
    "stable_version",
    "model",
    gettext_noop("service {} (stable)"),
    ("name",),
)
