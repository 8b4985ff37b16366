"""What Prometheus reads of GPU health."""

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from common.metrics import gauge
from gpu_health import selectors
from gpu_health.incident_facts import policy
from gpu_health.incident_statistics import StatisticsQuery, statistics
from gpu_health.statistics.figures import HOUR, DurationSummary


def findings() -> Iterator[Metric]:
    yield gauge(
        "gpu_findings",
        "Open findings of GPU health by severity.",
        ("severity",),
        [((severity,), float(count)) for severity, count in selectors.open_by_severity().items()],
    )
    yield gauge(
        "gpu_unread_lines",
        "Lines of GPU drivers that name a fault and could not be read, of open findings.",
        (),
        [((), float(selectors.unread_lines()))],
    )


def incidents() -> Iterator[Metric]:
    yield gauge(
        "gpu_incidents",
        "Open incidents of GPU health by state.",
        ("state",),
        [((state,), float(count)) for state, count in selectors.incidents_by_state().items()],
    )

    yield gauge(
        "gpu_incidents_held",
        "Open incidents of GPU health that a guard holds, by guard.",
        ("guard",),
        [((guard,), float(count)) for guard, count in selectors.incidents_by_guard().items()],
    )


def healing() -> Iterator[Metric]:
    opened = selectors.pools().filter(breaker_opened_at__isnull=False).count()
    yield gauge(
        "gpu_breakers_open", "Pools in which the breaker of healing is open.", (), [((), float(opened))]
    )
    stopped = float(policy().is_stopped)
    yield gauge("gpu_healing_stopped", "1 while the kill switch of healing is on.", (), [((), stopped)])


def figures() -> Iterator[Metric]:
    """Yield the figures of the last 30 days that the statistics page shows first."""
    answer = statistics(None, StatisticsQuery.of_the_last())
    total = answer.report.total
    for name, help_text, times in (
        ("time_to_detect", "From a fault's first line to its incident, over the last 30 days.", total.detect),
        (
            "time_to_quarantine",
            "From a fault's first line to the cordon, over the last 30 days.",
            total.quarantine,
        ),
        (
            "time_to_repair",
            "From a fault's first line to the return to service, over the last 30 days.",
            total.repair,
        ),
    ):
        yield gauge(f"gpu_{name}_seconds", help_text, ("statistic",), _samples(times))
    yield gauge(
        "gpu_availability_ratio",
        "Share of the GPU time of the last 30 days in service, by GPU model.",
        ("gpu_model",),
        [((model,), one.share) for model, one in answer.report.availability.items() if one.share is not None],
    )
    yield gauge(
        "gpu_lost_hours",
        "GPU hours lost to faults over the last 30 days, from cordon to return.",
        ("fault",),
        [((fault,), one.lost / HOUR) for fault, one in answer.report.by_fault.items()],
    )
    cost = [((answer.currency,), float(total.cost.amount))] if answer.prices else []
    yield gauge("gpu_lost_cost", "What these hours cost, of GPUs that have a price.", ("currency",), cost)


def _samples(times: DurationSummary) -> list[tuple[tuple[str, ...], float]]:
    told = (("mean", times.mean), ("median", times.median), ("p90", times.p90))
    return [((name,), value) for name, value in told if value is not None]
