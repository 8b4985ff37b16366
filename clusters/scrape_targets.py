"""Servers of a cluster that send no heartbeat, and whose own metrics say how they are."""

from typing import Any

from clusters.models import Worker
from clusters.states import GONE, WorkerState
from serving.relay_protocol import SCRAPED

PATH = "/metrics"


def scrape_targets(cluster_id: int) -> list[dict[str, Any]]:
    """As `serving.relay_protocol.Target`, those that have an address and are not on their way out."""
    rows = Worker.objects.filter(
        deployment__cluster=cluster_id, deployment__engine__in=SCRAPED, state=WorkerState.READY
    )
    found = rows.exclude(deployment__state__in=GONE).exclude(address="").order_by("pk")
    return [_target(row) for row in found.select_related("deployment", "node") if _metrics(row)]


def _metrics(row: Worker) -> dict[str, Any]:
    """Empty: its own heartbeats say it all."""
    server = row.deployment.settings.get("server")
    return server if isinstance(server, dict) else {}


def _target(row: Worker) -> dict[str, Any]:
    of, server = row.deployment, _metrics(row)
    return {
        "worker": row.uid,
        "deployment": of.name,
        "service": of.service,
        "version": of.version_label,
        "engine": of.engine,
        "machine": row.node.name if row.node else "",
        "address": row.address,
        "port": server.get("metrics_port") or row.port or 1,
        "path": server.get("metrics_path") or PATH,
        "slots": of.slots,
    }
