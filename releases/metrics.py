"""What Prometheus reads of releases."""

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from common.metrics import gauge
from releases.selectors.releases import count_by_state


def releases_by_state() -> Iterator[Metric]:
    counts = count_by_state()
    samples = [((state,), float(number)) for state, number in counts.items()]
    yield gauge("releases", "Releases by state.", ("state",), samples)
