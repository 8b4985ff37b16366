"""Ports for what the tests start.

Blocks below the range from which the system takes ports for connections, each claimed by one test process of
the whole machine for as long as it lives.
"""

import random
import socket

FIRST, LAST, SIZE = 20_000, 31_999, 100


def _look(first: int) -> None:
    """Raises OSError when somebody who is no test listens at one of the block."""
    for port in range(first, first + SIZE):
        with socket.socket() as probe:
            # What merely was closed a moment ago is free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))


class PortBlock:
    """`block[0]` to `block[99]`, and `block.workers` for those that a stack gives out itself."""

    def __init__(self) -> None:
        for first in random.sample(range(FIRST, LAST, SIZE), (LAST - FIRST) // SIZE):
            claim = socket.socket(socket.AF_UNIX)
            try:
                claim.bind(f"\0slipway-test-ports-{first}")
                _look(first)
            except OSError:
                claim.close()
                continue
            self._claim, self.first = claim, first
            return
        raise OSError(f"All ports from {FIRST} to {LAST} are claimed by other tests.")

    def __getitem__(self, index: int) -> int:
        return self.first + index

    @property
    def workers(self) -> tuple[int, int]:
        """First and last."""
        return self[10], self[SIZE - 1]
