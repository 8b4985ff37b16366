"""What Prometheus reads of releases."""

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from common.metrics import gauge, histogram
from releases.selectors.releases import count_by_state, durations_by_outcome, longest_approval_wait

MINUTE, HOUR, DAY = 60, 3_600, 86_400
BOUNDS_SECONDS = (
    *(MINUTE, 5 * MINUTE, 15 * MINUTE, 30 * MINUTE),
    *(HOUR, 2 * HOUR, 4 * HOUR, 8 * HOUR),
    *(DAY, 2 * DAY, 4 * DAY, 7 * DAY),
)


def releases_by_state() -> Iterator[Metric]:
    counts = count_by_state()
    samples = [((state,), float(number)) for state, number in counts.items()]
    yield gauge("releases", "Releases by state.", ("state",), samples)


def approval_waits() -> Iterator[Metric]:
    waited = longest_approval_wait()
    yield gauge(
        "release_approval_wait_seconds",
        "For how long the release that has waited longest for its approval has; 0: none waits.",
        (),
        [((), waited.total_seconds() if waited else 0.0)],
    )


def durations() -> Iterator[Metric]:
    """Yield how long ended releases took, from their request on; one query."""
    yield histogram(
        "release_duration_seconds",
        "From the request of a release to its end, by outcome.",
        ("outcome",),
        [((state,), buckets, seconds) for state, buckets, seconds in durations_by_outcome(BOUNDS_SECONDS)],
    )
