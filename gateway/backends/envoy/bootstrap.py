"""The start of Envoy: its bootstrap, the files that it finds, and its command line."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from common.files import sweep_leftovers
from gateway.backends.envoy import proof
from gateway.backends.envoy.client_access import FILTERS
from gateway.backends.envoy.clusters import cluster_messages, file_source
from gateway.backends.envoy.files import read_json, replace_json
from gateway.backends.envoy.layout import EnvoyFileLayout
from gateway.backends.envoy.listener import STATS_PREFIX, listener_messages
from gateway.backends.envoy.messages.base import extension
from gateway.backends.envoy.messages.bootstrap import Bootstrap
from gateway.backends.envoy.routes import route_messages
from gateway.backends.envoy.store import EnvoyFileStore
from gateway.backends.envoy.tracing import collectors
from gateway.errors import GatewayError, InvalidRoute
from gateway.latency import BOUNDS_MS

WORKER_THREADS = 2
STATS = (
    rf"(?:{STATS_PREFIX}|http\.{STATS_PREFIX}|listener_manager|cluster_manager|server)\..+"
    r"|cluster\..+\.(?:version_text|warming_state|update_rejected|update_failure|membership_total"
    r"|membership_healthy|upstream_cx_active|upstream_cx_connect_fail|upstream_rq_active|upstream_rq_retry"
    r"|upstream_rq_retry_success|ejections_active)"
    r"|extension_config_discovery\.http_filter\..+\.(?:version_text|update_rejected|update_failure)"
)
"""The numbers that Envoy keeps. By default it has some 250 per cluster, and looks through all for each
reading."""
DAY_US = 86_400_000_000
"""The last bound: Envoy lists nothing beyond it."""
MAX_CLIENT_CONNECTIONS = 20_000
ADMIN_PATHS = ("/stats", "/clusters", "/config_dump", "/listeners", "/ready", "/server_info", "/reopen_logs")
"""What the admin endpoint may be asked; it has no password, and the rest of it can stop the gateway."""


def command(layout: EnvoyFileLayout) -> list[str]:
    """The command line that runs Envoy in the foreground. Raises GatewayError when there is no Envoy."""
    return [
        str(proof.envoy_binary()),
        *("--config-path", str(layout.bootstrap)),
        *("--concurrency", str(WORKER_THREADS)),
        "--disable-hot-restart",
        "--reject-unknown-dynamic-fields",
        *("--log-level", "warning"),
        *("--file-flush-interval-msec", "1000"),
    ]


def write_bootstrap(layout: EnvoyFileLayout) -> None:
    """Write all that Envoy needs to start; routes that exist already stay, so that it serves at once.

    Call it before each start of Envoy, never beside a running one, for which there is `renew_bootstrap`.
    Raises GatewayError when Envoy would refuse what is kept, when the files cannot be written or are damaged.
    """
    store = EnvoyFileStore(layout)
    try:
        for directory in (
            layout.listeners.parent,
            layout.clusters.parent,
            layout.routes.parent,
            layout.targets,
            layout.log_dir,
            *(layout.extension(name).parent for name in FILTERS),
        ):
            directory.mkdir(parents=True, exist_ok=True)
        with store.lock():
            sweep_leftovers(layout.run_dir, older_than_seconds=0)
            state = store.load().pruned(datetime.now(UTC))
            for target in state.clusters:
                store.ensure_endpoints(target)
            try:
                proof.prove(state, layout)
            except InvalidRoute as error:
                raise GatewayError(f"The routes kept in {layout.state} cannot be served. {error}") from None
            store.save(state)
            store.put(layout.clusters, cluster_messages(state, layout))
            store.put(layout.routes, route_messages(state))
            store.ensure_filters()
            store.put(layout.listeners, listener_messages(layout))
            replace_json(layout.bootstrap, render_bootstrap(layout))
    except OSError as error:
        raise GatewayError(f"The gateway's files cannot be written: {error}.") from None


def renew_bootstrap(layout: EnvoyFileLayout) -> bool:
    """Write the bootstrap for the next start of a running Envoy.

    False, with nothing written, when Envoy cannot go on because its addresses change. Raises GatewayError.
    """
    fresh, present = render_bootstrap(layout), read_json(layout.bootstrap) or {}
    listeners = (read_json(layout.listeners) or {}).get("resources", [])
    if _addresses(fresh, listener_messages(layout)) != _addresses(present, listeners):
        return False
    if present != fresh:
        replace_json(layout.bootstrap, fresh)
    return True


def _addresses(bootstrap: Mapping[str, Any], listeners: Sequence[Mapping[str, Any]]) -> list[object]:
    """Return Envoy's addresses and names."""
    admin = bootstrap.get("admin", {}).get("address")
    return [bootstrap.get("node"), admin, *(listener["address"] for listener in listeners)]


def render_bootstrap(layout: EnvoyFileLayout) -> Bootstrap:
    return {
        "node": {"id": layout.node_id, "cluster": "slipway"},
        "admin": {
            "address": {"socket_address": {"address": "127.0.0.1", "port_value": layout.admin_port}},
            "ignore_global_conn_limit": True,
            "allow_paths": [{"prefix": path} for path in ADMIN_PATHS],
        },
        "dynamic_resources": {
            "lds_config": file_source(str(layout.listeners), str(layout.listeners.parent)),
            "cds_config": file_source(str(layout.clusters), str(layout.clusters.parent)),
        },
        "static_resources": {"listeners": [], "clusters": collectors(layout.otlp)},
        "stats_config": {
            "stats_matcher": {"inclusion_list": {"patterns": [{"safe_regex": {"regex": STATS}}]}},
            "histogram_bucket_settings": [
                {
                    "match": {"prefix": f"{STATS_PREFIX}."},
                    "buckets": [*(round(bound * 1000) for bound in BOUNDS_MS), DAY_US],
                }
            ],
        },
        # Histograms of the worker threads are merged this often.
        "stats_flush_interval": "1s",
        "overload_manager": {
            "resource_monitors": [
                extension(
                    "envoy.resource_monitors.global_downstream_max_connections",
                    "envoy.extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig",
                    {"max_active_downstream_connections": MAX_CLIENT_CONNECTIONS},
                )
            ]
        },
    }
