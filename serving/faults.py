"""Faults on purpose: a test facility, so that a bad version can be made of a good one.

The `serving` object of a version's `slipway.json` asks for them, whatever the engine. Readiness is not
touched: such a worker starts well and then serves badly, which is what a canary has to find out.
"""

import asyncio
import random
from dataclasses import dataclass
from typing import Annotated

from serving.openai import RequestFault
from serving.settings import Range


@dataclass(frozen=True, kw_only=True)
class Faults:
    """`delay_ms` goes before the first token of a `slow_share` of the requests; a `fail_share` is answered
    with status 500. Both begin after `after_requests` requests of this worker. Shares are 0..1.
    """

    delay_ms: Annotated[float, Range(0, 600_000)] = 0.0
    slow_share: Annotated[float, Range(0, 1)] = 1.0
    fail_share: Annotated[float, Range(0, 1)] = 0.0
    after_requests: Annotated[int, Range(0, 1_000_000_000)] = 0


class FaultInjection:
    """Plays `Faults` on one worker's requests, each drawn on its own."""

    def __init__(self, faults: Faults, *, seed: int | str) -> None:
        self._faults = faults
        self._random = random.Random(seed)  # noqa: S311 - which requests fail is no secret
        self._seen = 0

    def draw(self) -> tuple[float, RequestFault | None]:
        """Draw for one request: seconds of delay, and what it fails with after them."""
        self._seen += 1
        if self._seen <= self._faults.after_requests:
            return 0.0, None
        slow, fails = self._random.random(), self._random.random()
        delay = self._faults.delay_ms / 1_000 if slow < self._faults.slow_share else 0.0
        if fails >= self._faults.fail_share:
            return delay, None
        return delay, RequestFault.internal(
            "this version fails a share of its requests on purpose (slipway.json)"
        )

    async def strike(self) -> None:
        """Delays this request or raises RequestFault, as drawn."""
        delay, fault = self.draw()
        if delay:
            await asyncio.sleep(delay)
        if fault is not None:
            raise fault
