"""Checks of gateways and of what services answer."""

from collections.abc import Iterable
from datetime import timedelta

from django.utils.translation import gettext_lazy as _

from common.alert_checks import AlertCheck, AlertFinding, MetricCondition, measured
from gateway import metrics, selectors
from gateway.slowness import SLOWER_TIMES

MOST_ERRORS = 0.05
LEAST_REQUESTS = 20


def _failing_services() -> Iterable[AlertFinding]:
    names = list(selectors.routes().filter(removed_at=None).values_list("service", flat=True))
    lately = selectors.errors_lately(names, least_requests=LEAST_REQUESTS, ask=False) if names else {}
    return [
        AlertFinding({"service": name}, round(errors / requests, 4))
        for name, (requests, errors) in lately.items()
        if requests >= LEAST_REQUESTS and errors > MOST_ERRORS * requests
    ]


ALERT_CHECKS = (
    AlertCheck(
        name="SlipwayGatewayDown",
        title=_("Gateway down"),
        severity="critical",
        find=measured(metrics.gateways, "gateway_up", 1, by=("cluster",), is_below=True),
        lasts=timedelta(minutes=1),
        note=_("Its models may not answer."),
    ),
    AlertCheck(
        name="SlipwayServiceErrors",
        title=_("Service fails more than 5 % of its requests"),
        severity="critical",
        find=_failing_services,
        metric=MetricCondition(
            "sum by (service, version) (max by (service, version, side, epoch)"
            " (rate(slipway_service_errors_total[5m]))) > 0.05 * sum by (service, version)"
            " (max by (service, version, side, epoch) (rate(slipway_service_requests_total[5m])))",
            by=("service", "version"),
        ),
        lasts=timedelta(seconds=30),
        note=_("Look at the versions' errors on its page; any former version can be brought back."),
    ),
    AlertCheck(
        name="SlipwayServiceSlow",
        title=_("Service answers twice as slowly as on the day before"),
        severity="warning",
        find=measured(metrics.speeds, "service_slowdown_ratio", SLOWER_TIMES, by=("service",)),
        lasts=timedelta(minutes=5),
        note=_(
            "The value is how many times as slow its latency p95 of ten minutes is. Services with fewer than"
            " 100 answers, then or on the day before, are not compared. An objective bounds the latency."
        ),
    ),
    AlertCheck(
        name="SlipwayServiceBusy",
        title=_("Service almost without free slots"),
        severity="warning",
        find=measured(metrics.workers, "service_busy", 0.95, by=("service", "version")),
        lasts=timedelta(minutes=10),
        note=_("Its queue grows: add replicas, or lend workers to it."),
    ),
)
