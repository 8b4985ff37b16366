"""The dashboard for Grafana, as it is imported: rows of panels over our own metrics.

What describes all machines is told by every web process: `max by` makes one series of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

WIDTH, HEIGHT, PER_ROW = 8, 8, 3
SOURCE = {"type": "prometheus", "uid": "${source}"}


@dataclass(frozen=True, slots=True)
class DashboardPanel:
    title: str
    queries: Sequence[tuple[str, str]]
    """PromQL, and the name of its series with labels in `{{ }}`."""
    unit: str = "short"
    """As Grafana names it."""
    note: str = ""


def one(title: str, query: str, legend: str = "", *, unit: str = "short", note: str = "") -> DashboardPanel:
    return DashboardPanel(title, ((query, legend),), unit, note)


def quantiles(metric: str, by: str, *shares: float) -> tuple[tuple[str, str], ...]:
    """Return the quantiles of a histogram over five minutes: each one's query and legend."""
    labels = ", ".join(f"{{{{{label.strip()}}}}}" for label in by.split(","))
    query = "histogram_quantile({share}, sum by (le, {by}) (rate({metric}_bucket[5m])))"
    return tuple(
        (query.format(share=share, by=by, metric=metric), f"p{share * 100:g} {labels}") for share in shares
    )


TRAFFIC = (
    "sum by (service, version, side)"
    " (max by (service, version, side, epoch) (rate(slipway_service_{}_total[5m])))"
)
"""Every web tells the same; each epoch of the counters is a series of its own."""

ROWS: Sequence[tuple[str, Sequence[DashboardPanel]]] = (
    (
        "Health",
        (
            one("Parts", "min by (part) (slipway_part_up)", "{{part}}", note="1: up, as /readyz says."),
            one("Stuck rows", "max by (kind) (slipway_rows_stuck) > 0", "{{kind}}"),
            one(
                "Longest overdue",
                "max by (kind) (slipway_oldest_due_seconds) > 0",
                "{{kind}}",
                unit="s",
                note="For how long a row has been due at most; seconds are normal, minutes are not.",
            ),
        ),
    ),
    (
        "Model traffic",
        (
            one(
                "Requests",
                TRAFFIC.format("requests"),
                "{{service}} {{version}} ({{side}})",
                unit="reqps",
            ),
            one(
                "Errors",
                f"{TRAFFIC.format('errors')} / {TRAFFIC.format('requests')}",
                "{{service}} {{version}} ({{side}})",
                unit="percentunit",
            ),
            one(
                "Latency p95",
                "histogram_quantile(0.95, sum by (le, service, version, side) (max by (le, service, version,"
                " side, epoch) (rate(slipway_service_request_duration_seconds_bucket[5m]))))",
                "{{service}} {{version}} ({{side}})",
                unit="s",
            ),
        ),
    ),
    (
        "Releases",
        (
            one("Releases by state", "max by (state) (slipway_releases) > 0", "{{state}}"),
            one("Oldest approval", "max(slipway_release_approval_wait_seconds)", unit="s"),
            one(
                "Ended per hour",
                "max by (outcome) (increase(slipway_release_duration_seconds_count[1h]))",
                "{{outcome}}",
            ),
            one(
                "Median duration",
                "histogram_quantile(0.5, max by (le, outcome)"
                " (increase(slipway_release_duration_seconds_bucket[7d])))",
                "{{outcome}}",
                unit="s",
            ),
        ),
    ),
    (
        "Web",
        (
            one(
                "Requests",
                "sum by (status) (rate(slipway_http_request_duration_seconds_count[5m]))",
                "{{status}}",
                unit="reqps",
            ),
            DashboardPanel(
                "Until the answer began",
                quantiles("slipway_http_request_duration_seconds", "instance", 0.5, 0.95),
                "s",
            ),
            one("Open sockets", "sum by (instance) (slipway_live_sockets)", "{{instance}}"),
        ),
    ),
    (
        "Work",
        (
            one(
                "Steps taken",
                "max by (role) (rate(slipway_steps_taken_total[5m]))",
                "{{role}}",
                unit="ops",
            ),
            one("Due rows", "max by (kind) (slipway_rows_due) > 0", "{{kind}}"),
            DashboardPanel(
                "Who takes them",
                (
                    ("max by (role, state) (slipway_takers)", "{{role}} {{state}}"),
                    ("max by (lane) (slipway_lane_hung)", "hung: {{lane}}"),
                ),
            ),
            one("Queue", "max by (queue) (slipway_queue_messages)", "{{queue}}"),
            one("Failing rows", "max by (kind) (slipway_rows_failing) > 0", "{{kind}}"),
            one(
                "Webhooks",
                "max by (state) (slipway_webhook_endpoints)",
                "{{state}}",
                note="Endpoints; what was sent to them: slipway_webhook_deliveries.",
            ),
        ),
    ),
    (
        "Database",
        (
            DashboardPanel(
                "Connections",
                (
                    ("sum by (role) (max by (role, state) (slipway_database_connections))", "{{role}}"),
                    ("max(slipway_database_connections_limit)", "limit"),
                ),
            ),
            DashboardPanel(
                "Pools",
                (
                    ("slipway_database_pool_connections", "{{instance}} {{state}}"),
                    ("slipway_database_pool_limit", "{{instance}} limit"),
                ),
            ),
            one("Waiting for a connection", "slipway_database_pool_waiting", "{{instance}}"),
        ),
    ),
    (
        "Machines",
        (
            one(
                "Disk free",
                "slipway_disk_free_bytes / slipway_disk_size_bytes",
                "{{instance}} {{place}}",
                unit="percentunit",
            ),
            one(
                "Inodes free",
                "slipway_disk_free_inodes / slipway_disk_inodes",
                "{{instance}} {{place}}",
                unit="percentunit",
            ),
            DashboardPanel(
                "Age of the last backup",
                (
                    ("max(slipway_backup_age_seconds)", "age"),
                    ("max(slipway_backup_age_limit_seconds)", "limit"),
                ),
                "s",
            ),
            one("Silent agents", "max by (cluster) (slipway_agents_silent)", "{{cluster}}"),
            one("Workers", "max by (cluster, state) (slipway_workers) > 0", "{{cluster}} {{state}}"),
            one(
                "Busy",
                "max by (cluster) (slipway_cluster_busy_ratio)",
                "{{cluster}}",
                unit="percentunit",
            ),
            one(
                "Memory",
                # Others tell of their memory under the same name.
                'process_resident_memory_bytes and on (job, instance) slipway_part_up{part="database"}',
                "{{instance}}",
                unit="bytes",
            ),
            one(
                "Damaged files",
                "max by (state) (slipway_store_findings)",
                "{{state}}",
                note="Lost: see runbook.",
            ),
        ),
    ),
)


def queries() -> list[str]:
    """Every PromQL expression."""
    return [query for _, panels in ROWS for panel in panels for query, _ in panel.queries]


def dashboard() -> dict[str, Any]:
    """Return the dashboard as Grafana 10 and newer import it."""
    panels: list[dict[str, Any]] = []
    top = 0
    for title, row in ROWS:
        panels.append(
            {
                "type": "row",
                "title": title,
                "id": len(panels) + 1,
                "collapsed": False,
                "panels": [],
                "gridPos": {"h": 1, "w": 24, "x": 0, "y": top},
            }
        )
        top += 1
        for number, panel in enumerate(row):
            left, down = number % PER_ROW * WIDTH, number // PER_ROW * HEIGHT
            place = {"h": HEIGHT, "w": WIDTH, "x": left, "y": top + down}
            panels.append(_panel(panel, len(panels) + 1, place))
        top += -(-len(row) // PER_ROW) * HEIGHT
    return {
        "title": "Slipway",
        "uid": "slipway",
        "tags": ["slipway"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {
            "list": [
                {"name": "source", "label": "Data source", "type": "datasource", "query": "prometheus"},
            ]
        },
        "panels": panels,
    }


def _panel(panel: DashboardPanel, number: int, place: dict[str, int]) -> dict[str, Any]:
    return {
        "type": "timeseries",
        "title": panel.title,
        "id": number,
        "description": panel.note,
        "datasource": SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": SOURCE,
                "expr": query,
                "legendFormat": legend or "__auto",
            }
            for index, (query, legend) in enumerate(panel.queries)
        ],
    }
