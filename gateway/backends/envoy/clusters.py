"""Clusters, which are the targets of routes, and their endpoints, rendered from the state. Pure."""

from collections.abc import Sequence

from gateway.backends.envoy.abilities import METADATA
from gateway.backends.envoy.layout import EnvoyFileLayout
from gateway.backends.envoy.messages.base import ConfigSource, Typed, typed
from gateway.backends.envoy.messages.clusters import (
    ClusterLoadAssignment,
    EnvoyCluster,
    EnvoyMetadata,
    LbEndpoint,
    LocalityLbEndpoints,
)
from gateway.backends.state import GatewayState
from gateway.routes import RouteTarget, WorkerEndpoint

HEALTH_PATH = "/healthz"
KEEP_ALIVE_SECONDS = 4
"""An idle connection to a worker is closed before the worker closes it (uvicorn: after 5 s), so that no
request is sent into a connection that is just being closed."""


def render_clusters(state: GatewayState, layout: EnvoyFileLayout) -> list[EnvoyCluster]:
    return [_cluster(name, layout) for name in state.clusters]


def render_endpoints(target: str, endpoints: Sequence[WorkerEndpoint]) -> ClusterLoadAssignment:
    levels: list[LocalityLbEndpoints] = []
    if first := [_worker(target, one) for one in endpoints if not one.is_spare]:
        levels.append({"lb_endpoints": first})
    if spare := [_worker(target, one) for one in endpoints if one.is_spare]:
        levels.append({"lb_endpoints": spare, "priority": len(levels)})
    return {"cluster_name": target, "endpoints": levels}


def _worker(target: str, one: WorkerEndpoint) -> LbEndpoint:
    return {
        "endpoint": {"address": {"socket_address": {"address": one.address, "port_value": one.port}}},
        "load_balancing_weight": one.slots,
        "metadata": _metadata(one.serves or RouteTarget(target, "")),
    }


def _metadata(serves: RouteTarget) -> EnvoyMetadata:
    return {"filter_metadata": {METADATA: {"target": serves.name, "version": serves.version}}}


def cluster_messages(state: GatewayState, layout: EnvoyFileLayout) -> list[Typed]:
    return [typed("envoy.config.cluster.v3.Cluster", cluster) for cluster in render_clusters(state, layout)]


def endpoint_messages(target: str, endpoints: Sequence[WorkerEndpoint]) -> list[Typed]:
    assignment = render_endpoints(target, endpoints)
    return [typed("envoy.config.endpoint.v3.ClusterLoadAssignment", assignment)]


def file_source(path: str, directory: str) -> ConfigSource:
    return {
        "path_config_source": {"path": path, "watched_directory": {"path": directory}},
        "resource_api_version": "V3",
    }


def _cluster(target: str, layout: EnvoyFileLayout) -> EnvoyCluster:
    endpoints = layout.endpoints(target)
    return {
        "name": target,
        "type": "EDS",
        "eds_cluster_config": {"eds_config": file_source(str(endpoints), str(endpoints.parent))},
        "connect_timeout": "1s",
        # A worker that is taken out gets no new request at once, though it still passes its health checks;
        # what is in flight on it runs to its end.
        "ignore_health_on_host_removal": True,
        "health_checks": [
            {
                "timeout": "2s",
                "interval": "1s",
                "interval_jitter": "0.1s",
                "no_traffic_interval": "1s",
                "unhealthy_interval": "0.5s",
                # Timeouts and refused connections count to three; a 503 from the worker counts at once.
                "unhealthy_threshold": 3,
                "healthy_threshold": 1,
                "http_health_check": {"path": HEALTH_PATH},
            }
        ],
        # Faster than health checks at a worker that is gone (one failed connection) or that fails all it gets
        # (a broken one answers fastest, so that least-request would feed it most). Never more than half of
        # the workers, so never the only one: a service that errs must be seen to err, not to have no workers.
        "outlier_detection": {
            "interval": "1s",
            "base_ejection_time": "3s",
            "max_ejection_time": "30s",
            "max_ejection_percent": 50,
            "split_external_local_origin_errors": True,
            "consecutive_local_origin_failure": 1,
            "consecutive_5xx": 10,
            "enforcing_consecutive_5xx": 100,
            "enforcing_success_rate": 0,
            "enforcing_local_origin_success_rate": 0,
            "successful_active_health_check_uneject_host": False,
        },
        "common_lb_config": {
            # Never send to workers that are known not to be ready; with all of them so, answer 503 at once.
            "healthy_panic_threshold": {"value": 0},
            "ignore_new_hosts_until_first_hc": True,
            # By default a change of health waits up to a second for more of them.
            "update_merge_window": "0s",
        },
        "load_balancing_policy": {
            "policies": [
                {
                    "typed_extension_config": {
                        "name": "envoy.load_balancing_policies.least_request",
                        "typed_config": typed(
                            "envoy.extensions.load_balancing_policies.least_request.v3.LeastRequest",
                            # All workers are compared, not two at random: they are few and answers are long.
                            {"selection_method": "FULL_SCAN"},
                        ),
                    }
                }
            ]
        },
        # A worker queues and refuses by itself (429); Envoy's defaults of 1024, and 3 retries, are for web
        # pages.
        "circuit_breakers": {
            "thresholds": [
                {
                    "max_connections": 100_000,
                    "max_pending_requests": 100_000,
                    "max_requests": 100_000,
                    "max_retries": 1_000,
                }
            ]
        },
        # A machine that vanished under a stream is noticed in half a minute.
        "upstream_connection_options": {
            "tcp_keepalive": {"keepalive_probes": 3, "keepalive_time": 15, "keepalive_interval": 5}
        },
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": typed(
                "envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                {
                    "common_http_protocol_options": {"idle_timeout": f"{KEEP_ALIVE_SECONDS}s"},
                    "explicit_http_config": {"http_protocol_options": {}},
                },
            )
        },
    }
