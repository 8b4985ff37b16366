"""How often releases with traffic are looked at: each second, and less often where a process has many."""

import time
from collections.abc import Callable
from datetime import timedelta

LOOKS_PER_SECOND = 10
"""That one process takes. Evidence holds however often one looks; a verdict may come later by one wait."""
LEAST, MOST = timedelta(seconds=1), timedelta(seconds=10)


class LookPace:
    """Counts the releases that this process looks at, to space the looks."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[int, float] = {}

    def note(self, release_id: int) -> None:
        now = self._clock()
        since = now - 1.5 * MOST.total_seconds()
        # Threads may overwrite each other's note: it comes again with the next look.
        self._seen = {pk: at for pk, at in self._seen.items() if at > since} | {release_id: now}

    def wait(self) -> timedelta:
        """Return the time until the next look at any one of them."""
        return min(max(LEAST, timedelta(seconds=len(self._seen) / LOOKS_PER_SECOND)), MOST)


pace = LookPace()
"""Of this process."""
