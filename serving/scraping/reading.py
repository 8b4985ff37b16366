"""What a server's metrics say of it at one moment, in our words."""

from dataclasses import dataclass

from serving.protocol import Counters
from serving.scraping.exposition import Histogram


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Counters and histograms count since the server's start."""

    waiting: int
    """Requests in its queue."""
    counters: Counters
    running: int | None = None
    """Requests that it works on; None: it does not say, and `worked_seconds` does."""
    worked_seconds: float | None = None
    """Time that requests were worked on, summed over requests."""
    ttft: Histogram | None = None
    """Seconds to the first token; None: it does not say."""
    tpot: Histogram | None = None
    """Seconds between tokens; None: it does not say."""
    started_at: float | None = None
    """Seconds since 1970; None: it does not say."""
