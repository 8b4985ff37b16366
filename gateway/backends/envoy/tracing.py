"""Envoy's part in a trace: a span for each model request that comes with a sampled `traceparent`. Pure.

Whatever it does, the header goes on to the worker: with its own span in it where there is one.
"""

from typing import Any
from urllib.parse import urlsplit

from gateway.backends.envoy.messages.base import extension, typed

CLUSTER = "slipway-otlp"
CONNECT_SECONDS = "1s"
SEND_WITHIN_SECONDS = "5s"
AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"
SAMPLERS = "envoy.extensions.tracers.opentelemetry.samplers.v3"
PORTS = {"http": 80, "https": 443}


def tracing(url: str) -> dict[str, Any]:
    """The tracing of the connection manager. `url`: where spans are POSTed."""
    return {
        "spawn_upstream_span": False,
        "provider": {
            "name": "envoy.tracers.opentelemetry",
            "typed_config": typed(
                "envoy.config.trace.v3.OpenTelemetryConfig",
                {
                    "service_name": "slipway-gateway",
                    "http_service": {
                        "http_uri": {"uri": url, "cluster": CLUSTER, "timeout": SEND_WITHIN_SECONDS}
                    },
                    # As the traceparent says; without one, what strangers send shall cost nothing.
                    "sampler": extension(
                        "envoy.tracers.opentelemetry.samplers.parent_based",
                        f"{SAMPLERS}.ParentBasedSamplerConfig",
                        {
                            "wrapped_sampler": extension(
                                "envoy.tracers.opentelemetry.samplers.trace_id_ratio_based",
                                f"{SAMPLERS}.TraceIdRatioBasedSamplerConfig",
                                {"sampling_percentage": {"numerator": 0}},
                            )
                        },
                    ),
                },
            ),
        },
    }


def collectors(url: str) -> list[Any]:
    """The cluster of the collector; none without one."""
    return [_collector(url)] if url else []


def _collector(url: str) -> dict[str, Any]:
    """Return the cluster of the collector, whose name is resolved again and again."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or PORTS[parts.scheme]
    address = {"socket_address": {"address": host, "port_value": port}}
    cluster: dict[str, Any] = {
        "name": CLUSTER,
        "type": "STRICT_DNS",
        "connect_timeout": CONNECT_SECONDS,
        "load_assignment": {
            "cluster_name": CLUSTER,
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address}}]}],
        },
    }
    if parts.scheme == "https":
        cluster["transport_socket"] = extension(
            "envoy.transport_sockets.tls",
            "envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
            {
                "sni": host,
                "common_tls_context": {"validation_context": {"trusted_ca": {"filename": AUTHORITIES}}},
            },
        )
    return cluster
