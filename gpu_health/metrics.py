"""What Prometheus reads of GPU health."""

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from common.metrics import gauge
from gpu_health import selectors


def findings() -> Iterator[Metric]:
    yield gauge(
        "gpu_findings",
        "Open findings of GPU health by severity.",
        ("severity",),
        [((severity,), float(count)) for severity, count in selectors.open_by_severity().items()],
    )
