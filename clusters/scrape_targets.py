"""Servers of a cluster that send no heartbeat, and whose own metrics say how they are."""

from typing import Any

from clusters.backends.pod_settings import PodSettings
from clusters.backends.servers import ModelServer
from clusters.models import Deployment, Worker
from clusters.states import GONE, WorkerState
from serving.engines.registry import READ_ENGINES
from serving.relay_protocol import SCRAPED


def server_of(row: Deployment) -> ModelServer | None:
    """Return the image's own server in its pods; None: our worker serves."""
    return PodSettings.read(row.pod).server_of(row.engine)


def is_read(row: Deployment, *, has_relay: bool) -> bool:
    """Whether anything is heard of its workers, where those of others report."""
    server = server_of(row)
    return server is None or (has_relay and _tells(row, server))


def _tells(row: Deployment, server: ModelServer) -> bool:
    """Its metrics are understood: by its engine, or by what its service says of them."""
    return row.engine in READ_ENGINES or server.metrics is not None


def scrape_targets(cluster_id: int) -> list[dict[str, Any]]:
    """Return targets (`serving.relay_protocol.ScrapeTarget`): workers that have an address and do not end."""
    rows = Worker.objects.filter(
        deployment__cluster=cluster_id, deployment__engine__in=SCRAPED, state=WorkerState.READY
    )
    found = rows.exclude(deployment__state__in=GONE).exclude(address="").order_by("pk")
    return [
        _target(row, server)
        for row in found.select_related("deployment", "node")
        if (server := server_of(row.deployment)) is not None and _tells(row.deployment, server)
    ]


def _target(row: Worker, server: ModelServer) -> dict[str, Any]:
    of = row.deployment
    return {
        "worker": row.uid,
        "deployment": of.name,
        "service": of.service,
        "version": of.version_label,
        "engine": of.engine,
        "machine": row.node.name if row.node else "",
        "address": row.address,
        "port": server.metrics_port or row.port or server.port,
        "path": server.metrics_path,
        "slots": of.slots,
        "names": dict(server.metrics or {}),
    }
