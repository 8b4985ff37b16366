"""What Prometheus reads of GPU health."""

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from common.metrics import gauge
from gpu_health import selectors
from gpu_health.incident_facts import policy


def findings() -> Iterator[Metric]:
    yield gauge(
        "gpu_findings",
        "Open findings of GPU health by severity.",
        ("severity",),
        [((severity,), float(count)) for severity, count in selectors.open_by_severity().items()],
    )


def incidents() -> Iterator[Metric]:
    yield gauge(
        "gpu_incidents",
        "Open incidents of GPU health by state.",
        ("state",),
        [((state,), float(count)) for state, count in selectors.incidents_by_state().items()],
    )


def healing() -> Iterator[Metric]:
    opened = selectors.pools().filter(breaker_opened_at__isnull=False).count()
    yield gauge(
        "gpu_breakers_open", "Pools in which the breaker of healing is open.", (), [((), float(opened))]
    )
    stopped = float(policy().is_stopped)
    yield gauge("gpu_healing_stopped", "1 while the kill switch of healing is on.", (), [((), stopped)])
