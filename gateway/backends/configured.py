"""Whatever splits a cluster's traffic, and whatever counts it, as the row of its gateway says."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from importlib import import_module
from threading import Lock
from typing import TYPE_CHECKING, cast

from django.conf import settings

from clusters import selectors as fleet
from common.hosts import this_host
from common.sealed import CannotUnseal
from gateway.backends.base import GatewayBackend, GatewayRowConfig, TrafficBackend, TrafficMetrics
from gateway.backends.envoy.configured import layout_from
from gateway.backends.envoy.layout import EnvoyFileLayout
from gateway.backends.envoy_statistics import EnvoySettings, EnvoyStatistics, same_start
from gateway.backends.prometheus import TOKEN, PrometheusCounters, PrometheusQueries, PrometheusSettings
from gateway.backends.remote_gateway import RemoteGateway
from gateway.backends.worker_counters import WorkerCounters
from gateway.errors import GatewayUnreachable, InvalidGateway, NoGateway, UnknownRoute
from gateway.models import Gateway, Route
from gateway.routes import WorkerEndpoint
from gateway.states import GatewayKind, MetricsKind
from gateway.worker_figures import WorkerFigures

if TYPE_CHECKING:
    from clusters.models import Cluster

PROMETHEUS, ENVOY = "prometheus", "envoy"
"""The settings that say where those are, whatever the kind of the gateway."""
_lock = Lock()
_made: dict[int, tuple[tuple[int, int], GatewayBackend]] = {}
"""By row: the revisions, of it and of its cluster, that it was made from, and what was made of it."""


def traffic_backend_of(cluster: "Cluster | int") -> TrafficBackend:
    """The gateway of this cluster, given as its row or its id. Raises NoGateway, InvalidGateway."""
    return backends_of(gateway_of(cluster)).traffic


def traffic_metrics_of(cluster: "Cluster | int") -> TrafficMetrics:
    """Return the counter of this cluster's traffic. Raises as `traffic_backend_of`."""
    return metrics_of(gateway_of(cluster))


def metrics_of(gateway: Gateway) -> TrafficMetrics:
    """Return the counter of its traffic. Raises InvalidGateway."""
    metrics = backends_of(gateway).metrics
    if metrics is None:
        raise InvalidGateway("Nothing counts what this gateway sends.")
    return metrics


def backends_of(gateway: Gateway) -> GatewayBackend:
    """Return the backend, one per row and process until its revision or its cluster's changes. Raises
    InvalidGateway.
    """
    now = revisions_of(gateway)
    with _lock:
        revisions, made = _made.get(gateway.pk, (None, None))
        if made is None or revisions != now:
            made = look_at(gateway)
            _made[gateway.pk] = (now, made)
        return made


def revisions_of(gateway: Gateway) -> tuple[int, int]:
    """Return the revisions of the row and of its cluster, whose credential it may use."""
    return gateway.revision, gateway.cluster.revision


def config_of(gateway: Gateway) -> GatewayRowConfig:
    """Raises InvalidGateway where its secrets cannot be read any more."""
    try:
        secrets = gateway.secrets
    except CannotUnseal as error:
        raise InvalidGateway(str(error)) from None
    return GatewayRowConfig(cluster=gateway.cluster.name, settings=gateway.settings, secrets=secrets)


def envoy_layout_of(cluster: str) -> EnvoyFileLayout:
    """Return the files and ports of this cluster's Envoy. Raises NoGateway, InvalidGateway."""
    found = Gateway.objects.select_related("cluster").filter(cluster__name=cluster).first()
    if found is None:
        raise NoGateway(cluster)
    if found.kind != GatewayKind.ENVOY:
        raise InvalidGateway(f"The gateway of {cluster} is no Envoy of ours: its kind is {found.kind}.")
    return layout_from(config_of(found))


def forget() -> None:
    """Make everything anew, as another process would."""
    with _lock:
        _made.clear()


def gateway_of(cluster: "Cluster | int") -> Gateway:
    """Raises NoGateway."""
    cluster_id = cluster if isinstance(cluster, int) else cluster.pk
    found = Gateway.objects.select_related("cluster").filter(cluster_id=cluster_id).first()
    if found is None:
        raise NoGateway(cluster_id if isinstance(cluster, int) else cluster.name)
    return found


def look_at(gateway: Gateway) -> GatewayBackend:
    """Made anew, of a row that may not be saved yet. Asks nobody. Raises InvalidGateway, whose message says
    which setting is wrong."""
    name = settings.SLIPWAY_GATEWAY_BACKENDS.get(gateway.kind)
    if name is None:
        known = ", ".join(sorted(settings.SLIPWAY_GATEWAY_BACKENDS))
        raise InvalidGateway(f"There is no gateway of the kind {gateway.kind} here. Known: {known}.")
    config = config_of(gateway)
    if gateway.metrics == MetricsKind.PROMETHEUS:
        prometheus, config = _prometheus(config)
        made = replace(_of_kind(name, config), metrics=prometheus)
    elif gateway.metrics == MetricsKind.ENVOY:
        envoy, config = _envoy(gateway, config)
        made = replace(_of_kind(name, config), metrics=envoy, cannot_count=_UNTOLD)
    else:
        made = _of_kind(name, config)
    if gateway.metrics == MetricsKind.WORKERS:
        made = replace(made, metrics=WorkerCounters(_workers_of))
    if made.metrics is None:
        raise InvalidGateway(
            fields={
                "metrics": [
                    f"A gateway of the kind {gateway.kind} counts nothing: workers, prometheus or envoy."
                ]
            }
        )
    if is_elsewhere(gateway):
        there = RemoteGateway(gateway.host)
        made = replace(
            made,
            traffic=there,
            metrics=there,
            access=None,
            clients=None,
            public_url=gateway.host_url or made.public_url,
        )
    public_url = gateway.public_url.rstrip("/") or made.public_url
    return replace(made, public_url=public_url)


def prometheus_of(cluster: "Cluster") -> PrometheusQueries | None:
    """Return the Prometheus that the cluster's gateway counts by; None: there is none. Raises
    InvalidGateway."""
    rows = Gateway.objects.select_related("cluster").filter(cluster=cluster, metrics=MetricsKind.PROMETHEUS)
    if (gateway := rows.first()) is None:
        return None
    config = config_of(gateway)
    settings = PrometheusSettings.read(config.settings.get(PROMETHEUS))
    return PrometheusQueries(settings, token=config.secrets.get(TOKEN, ""))


def other_prometheus(url: str, *, token: str = "", within_seconds: float = 2.0) -> PrometheusQueries:
    """Return the Prometheus at an address that no gateway's row has. Raises InvalidGateway."""
    return PrometheusQueries(
        PrometheusSettings.read({"url": url}), token=token, within_seconds=within_seconds
    )


def _of_kind(module: str, config: GatewayRowConfig) -> GatewayBackend:
    return cast(GatewayBackend, import_module(module).from_config(config))


def _prometheus(config: GatewayRowConfig) -> tuple[PrometheusCounters, GatewayRowConfig]:
    """And what is left for its kind. Raises InvalidGateway."""
    settings = PrometheusSettings.read(config.settings.get(PROMETHEUS))
    counters = PrometheusCounters(settings, _ready_workers_of, token=config.secrets.get(TOKEN, ""))
    left = {key: one for key, one in config.settings.items() if key != PROMETHEUS}
    secrets = {key: one for key, one in config.secrets.items() if key != TOKEN}
    return counters, replace(config, settings=left, secrets=secrets)


def _envoy(gateway: Gateway, config: GatewayRowConfig) -> tuple[EnvoyStatistics, GatewayRowConfig]:
    """And what is left for its kind. Raises InvalidGateway."""
    settings = EnvoySettings.read(config.settings.get(ENVOY))

    def start_of(instance: str, seems: datetime) -> datetime:
        rows = Gateway.objects.filter(pk=gateway.pk)
        noted = rows.values_list("counter_starts", flat=True).first() or {}
        start = same_start(noted.get(instance), seems)
        if noted.get(instance) != start.isoformat():
            rows.update(counter_starts=noted | {instance: start.isoformat()})
        return start

    left = {key: one for key, one in config.settings.items() if key != ENVOY}
    counters = EnvoyStatistics(settings, _chosen_by_weight, start_of=start_of)
    return counters, replace(config, settings=left)


def _chosen_by_weight(route: str) -> list[str]:
    """Return the endpoints as `_workers_of`. Raises GatewayUnreachable where clients may choose a side:
    Envoys count both together.
    """
    rows = Route.objects.filter(service=route, removed_at__isnull=True)
    if rows.exclude(release_header="off").exists():
        raise GatewayUnreachable(
            f"Envoys cannot tell apart who chose a version by x-release: switch that off for {route} "
            f"(slipway service release-header {route} off), or have the workers count."
        )
    return list(_workers_of(route))


_UNTOLD = dict.fromkeys(
    ("cohort", "cohort_cookie", "cohort_percent"),
    "The Envoys count, which cannot tell a cohort's requests apart: have the workers count.",
)


def figures_of_workers(route: Route) -> Mapping[str, WorkerFigures]:
    """Return the figures that the workers of each deployment count themselves. Raises UnknownRoute,
    GatewayUnreachable.
    """
    if is_elsewhere(route.gateway):
        raise GatewayUnreachable(f"The workers of {route.service} are reached from {route.gateway.host}.")
    return WorkerCounters(_workers_of).figures(route.service)


def is_elsewhere(gateway: Gateway) -> bool:
    """Tell whether it is configured by files of another host."""
    return gateway.host not in ("", this_host())


def _ready_workers_of(route: str) -> dict[str, int]:
    """Return the number of ready workers of each deployment of the route."""
    _check_routed(route)
    return fleet.ready_workers(route)


def _check_routed(service: str) -> None:
    if not Route.objects.filter(service=service, removed_at__isnull=True).exists():
        raise UnknownRoute(f"{service} has no route.")


def _workers_of(route: str) -> dict[str, list[WorkerEndpoint]]:
    """Return the endpoints of a service's deployments, also of those that lately left its route. Raises
    UnknownRoute.
    """
    _check_routed(route)
    listening = fleet.listening_workers(route)
    return {name: [WorkerEndpoint(*one) for one in addresses] for name, addresses in listening.items()}
