"""When each alert fires and stops, for `promtool test rules`: a minute per value of a series.

Values are written as promtool takes them: `0x4` is five times 0, `0+60x9` counts up, `_` was not scraped.
https://prometheus.io/docs/prometheus/2.42/configuration/unit_testing_rules/
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

ALONE = 'group by (alertname) (ALERTS{alertstate="firing",alertname!="SlipwayNotMeasured"})'
"""Most cases have no web that tells of its sockets."""
ALL = 'group by (alertname) (ALERTS{alertstate="firing"})'


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    alert: str
    """Empty: none fires."""
    series: Mapping[str, str]
    """Their names without `slipway_`."""
    quiet: Sequence[int]
    """Minutes at which nothing fires: before, for too short a time, afterwards."""
    firing: Sequence[int] = ()
    """Minutes at which this alert fires and no other."""
    query: str = ALONE

    def written(self) -> dict[str, Any]:
        fires = [{"labels": f'{{alertname="{self.alert}"}}', "value": 1}]
        return {
            "interval": "1m",
            "input_series": [
                {"series": one if one.startswith("up{") else f"slipway_{one}", "values": values}
                for one, values in self.series.items()
            ],
            "promql_expr_test": [
                {"expr": self.query, "eval_time": f"{minute}m", "exp_samples": told}
                for minutes, told in ((self.quiet, []), (self.firing, fires))
                for minute in minutes
            ],
        }


def holds(alert: str, series: str, *, after: int, bad: str = "1", good: str = "0") -> Case:
    """Fires when `series` has been `bad` for `after` minutes, and ends with it."""
    values = f"{good}x4 {bad}x{after + 3} {good}x4"
    return Case(
        alert=alert,
        series={series: values},
        quiet=[4, *([4 + after] if after else []), 10 + after],
        firing=[5 + after, 8 + after],
    )


A_WEB = "live_sockets{role='web',instance='a'}"
CASES = (
    holds("SlipwayPartDown", "part_up{part='reconcilers',instance='a'}", after=1, bad="0", good="1"),
    holds("SlipwayPartImpaired", "part_up{part='redis',instance='a'}", after=2, bad="0", good="1"),
    holds(
        "SlipwayClusterTakesNoOrders",
        "cluster_takes_orders{cluster='west'}",
        after=2,
        bad="0",
        good="1",
    ),
    holds("SlipwayGatewayDown", "gateway_up{cluster='west'}", after=1, bad="0", good="1"),
    # What has rules of its own is no part that is down.
    Case(
        alert="",
        series={f"part_up{{part='{part}'}}": "0x20" for part in ("backup", "clusters", "gateway", "hosts")},
        quiet=[15],
    ),
    Case(
        alert="SlipwayProcessSilent",
        series={
            "up{job='slipway',instance='a'}": "1x4 0x5 1x5",
            "up{job='node',instance='b'}": "0x20",
            "part_up{job='slipway',instance='a',part='database'}": "1x4 _x5 1x5",
        },
        quiet=[4, 6, 11],
        firing=[8],
    ),
    # A sweeper goes on telling of its parts: it is no web.
    Case(
        alert="SlipwayNotMeasured",
        series={A_WEB: "0x4 stale _x5 0x4", "part_up{part='sweeper',instance='b'}": "1x20"},
        quiet=[4, 6, 12],
        firing=[7, 9],
        query=ALL,
    ),
    Case(
        alert="SlipwayClockSkew",
        series={"clock_skew_seconds{host='a'}": "0.2x2 -300x9 0.1x9", "clock_skew_seconds{host='b'}": "3x20"},
        quiet=[2, 4, 13],
        firing=[5, 11],
    ),
    Case(
        alert="SlipwayBackupOld",
        series={"backup_age_seconds": "100x2 9000x19 10x5", "backup_age_limit_seconds": "7200x30"},
        quiet=[2, 17, 24],
        firing=[18, 20],
    ),
    # None was ever made; without a limit nobody asked for one.
    Case(
        alert="SlipwayBackupOld",
        series={"backup_age_limit_seconds": "7200x30"},
        quiet=[14],
        firing=[15],
    ),
    Case(alert="", series={"backup_age_seconds": "900000x30"}, quiet=[20]),
    Case(
        alert="SlipwayWebErrors",
        series={
            "http_request_duration_seconds_count{instance='a',status='200'}": "0+100x40",
            "http_request_duration_seconds_count{instance='a',status='503'}": "0x9 0+10x12 120x20",
            "http_request_duration_seconds_count{instance='b',status='200'}": "0+900x40",
        },
        quiet=[9, 13, 30],
        firing=[18, 21],
    ),
    holds("SlipwayDatabasePoolWaits", "database_pool_waiting{role='web',instance='a'}", after=1),
    holds("SlipwayQueueLong", "queue_messages{queue='celery',instance='a'}", after=5, bad="1001"),
    Case(
        alert="SlipwayDiskInodes",
        series={"disk_free_inodes{place='home'}": "90x2 4x8 9x9", "disk_inodes{place='home'}": "100x30"},
        quiet=[2, 7, 12],
        firing=[8, 10],
    ),
    # Some file systems count no inodes.
    Case(
        alert="",
        series={"disk_free_inodes{place='home'}": "0x20", "disk_inodes{place='home'}": "0x20"},
        quiet=[15],
    ),
    holds("SlipwayDiskLow", "disk_state{state='low',instance='a'}", after=1),
    holds("SlipwayDiskFull", "disk_state{state='full',instance='a'}", after=0),
    holds("SlipwayRowsStuck", "rows_stuck{kind='releases.release',instance='a'}", after=0),
    holds("SlipwayHostSilent", "host_silent_rows{host='h1',instance='a'}", after=1, bad="2"),
    holds("SlipwayTakerHung", "taker_silent_seconds{role='sweeper',instance='a'}", after=1, bad="31"),
    holds("SlipwayRowsOverdue", "rows_overdue{kind='releases.release',instance='a'}", after=2),
    holds("SlipwayRowsLate", "oldest_due_seconds{kind='releases.release',instance='a'}", after=0, bad="301"),
    holds("SlipwayLaneHung", "lane_hung{lane='hub:huggingface.co',instance='a'}", after=5),
    Case(
        alert="SlipwayDatabaseConnections",
        series={
            # Two webs tell the same: it is one number.
            "database_connections{role='web',state='idle',instance='a'}": "50x4 91x5 50x5",
            "database_connections{role='web',state='idle',instance='b'}": "50x4 91x5 50x5",
            "database_connections_limit{instance='a'}": "100x20",
        },
        quiet=[4, 6, 12],
        firing=[7, 9],
    ),
    holds("SlipwayAuditOutputFails", "rows_failing{kind='accounts.auditoutput',instance='a'}", after=5),
    holds("SlipwayWebhooksFailing", "webhook_endpoints{state='failing',instance='a'}", after=15),
    holds("SlipwayFilesLost", "store_findings{state='lost',instance='a'}", after=0),
    holds("SlipwayWorkersLost", "workers{cluster='west',state='lost',instance='a'}", after=1),
    holds("SlipwayClusterRightsMissing", "cluster_rights_missing{cluster='west',instance='a'}", after=1),
    holds("SlipwayRelaySilent", "relay_silent{cluster='west',instance='a'}", after=1),
    holds("SlipwayAgentSilent", "agents_silent{cluster='west',instance='a'}", after=2),
    Case(
        alert="SlipwayServiceErrors",
        series={
            "service_requests_total{version='v2',side='candidate'}": "0+100x40",
            "service_errors_total{version='v2',side='candidate'}": "0x9 0+10x12 120x20",
        },
        quiet=[9, 11, 30],
        firing=[18, 21],
    ),
    Case(
        alert="SlipwayRouteErrors",
        series={
            "service_route_requests_total{version='v2',side='candidate',route='/detect'}": "0+100x40",
            "service_route_errors_total{version='v2',side='candidate',route='/detect'}": "0x9 0+10x12 120x20",
        },
        quiet=[9, 13, 30],
        firing=[18, 21],
    ),
    Case(
        alert="SlipwayModelQueueSlow",
        series={
            "service_model_calls_total{version='v2',side='stable',method='detect'}": "0+60x40",
            "service_model_queue_seconds_total{version='v2',side='stable',method='detect'}": (
                "0x9 0+180x12 2160x20"
            ),
        },
        quiet=[9, 13, 32],
        firing=[18, 21],
    ),
    holds("SlipwayWorkerStuck", "workers{cluster='west',state='stuck',instance='a'}", after=0),
    holds("SlipwayWorkerSaturated", "workers{cluster='west',state='saturated',instance='a'}", after=10),
    holds("SlipwayCrashLoop", "workers_crashing{cluster='west',instance='a'}", after=1),
    holds("SlipwayDeploymentFailing", "deployments{cluster='west',state='failing',instance='a'}", after=1),
    holds(
        "SlipwayClusterCredentialExpires",
        "cluster_credential_days{cluster='west',credential='token',instance='a'}",
        after=0,
        bad="13.9",
        good="30",
    ),
    holds("SlipwayServiceSlow", "service_slowdown_ratio{service='chat'}", after=5, bad="2.5", good="1.1"),
    holds("SlipwayTokenExpires", "tokens_expiring{instance='a'}", after=0),
    holds("SlipwayBudgetNear", "usage_budgets{team='speech',state='near',instance='a'}", after=0),
    holds("SlipwayBudgetSpent", "usage_budgets{team='speech',state='spent',instance='a'}", after=0),
    holds(
        "SlipwayErrorBudgetSpent",
        "objective_budget_remaining_ratio{service='chat',objective='answers',instance='a'}",
        after=0,
        bad="0",
        good="0.4",
    ),
    # The hour is bad until long after the last five minutes are good again; a few failures are an accident.
    Case(
        alert="SlipwayErrorBudgetBurnsFast",
        series={
            "objective_burn_rate{service='chat',window='60m'}": "20x20",
            "objective_burn_rate{service='chat',window='5m'}": "20x9 0x11",
            "objective_failures{service='chat',window='60m'}": "9x4 40x16",
        },
        quiet=[4, 10],
        firing=[5, 9],
    ),
    Case(
        alert="SlipwayErrorBudgetBurnsSlowly",
        series={
            "objective_burn_rate{service='chat',window='360m'}": "7x20",
            "objective_burn_rate{service='chat',window='30m'}": "7x9 0x11",
            "objective_failures{service='chat',window='360m'}": "9x4 40x16",
        },
        quiet=[4, 10],
        firing=[5, 9],
    ),
    holds("SlipwayJobsFailed", "jobs{state='failed',instance='a'}", after=0),
    holds("SlipwayCapacityBlind", "capacity_silent{pool='p',service='chat',instance='a'}", after=2),
    holds("SlipwayCapacityPlanFailed", "capacity_plan{pool='p',state='failed',instance='a'}", after=0),
    holds("SlipwayQueueLate", "capacity_late_seconds{pool='p',service='chat',instance='a'}", after=0),
    holds("SlipwayServiceBusy", "service_busy{version='v2'}", after=10, bad="0.99", good="0.4"),
    # One of two workers starts anew: half of all that was ever counted is gone, and was no error of now.
    Case(
        alert="",
        series={
            "service_requests_total{version='v1',epoch='x'}": "90000+60x9 stale",
            "service_errors_total{version='v1',epoch='x'}": "60000x9 stale",
            "service_requests_total{version='v1',epoch='y'}": "_x10 45000+60x20",
            "service_errors_total{version='v1',epoch='y'}": "_x10 30000x20",
        },
        quiet=[9, 12, 16, 20],
    ),
    holds("SlipwayGpuFindingFatal", "gpu_findings{severity='fatal',instance='a'}", after=1),
    holds("SlipwayGpuLinesUnread", "gpu_unread_lines{instance='a'}", after=1),
    holds("SlipwayGpuPoolHasNoRoom", "gpu_incidents_held{guard='unhealthy',instance='a'}", after=1),
    holds("SlipwayGpuIncidentNeedsPerson", "gpu_incidents{state='needs_person',instance='a'}", after=0),
    holds("SlipwayGpuHealingStopped", "gpu_healing_stopped{instance='a'}", after=0),
    holds("SlipwayGpuBreakerOpen", "gpu_breakers_open{instance='a'}", after=0),
    holds("SlipwayApprovalWaits", "release_approval_wait_seconds{instance='a'}", after=0, bad="14401"),
)
