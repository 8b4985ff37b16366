"""Who may read `/metrics`, of a web or at the health port of a role: SLIPWAY_METRICS says it.

While the database is away no token can be looked up, and that is when measures count most: a token that this
process has let in within the last hour is let in then.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256

from django.conf import settings
from django.db import Error
from django.http import HttpRequest

from accounts.bearer import CHALLENGE, bearer_text, brings_right
from accounts.states import Right

REMEMBERED_SECONDS = 3_600.0


@dataclass(frozen=True, slots=True)
class ScrapeRefusal:
    status: int
    text: str

    @property
    def headers(self) -> dict[str, str]:
        return {"WWW-Authenticate": CHALLENGE} if self.status == 401 else {}


class ScrapeGuard:
    """Safe in threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._let_in: dict[bytes, float] = {}
        """By sha256 of the token: when it was let in last."""

    def refusal(self, request: HttpRequest) -> ScrapeRefusal | None:
        """Return why it may not read; None when it may."""
        if settings.SLIPWAY_METRICS == "off":
            return ScrapeRefusal(404, "SLIPWAY_METRICS is off.\n")
        if settings.SLIPWAY_METRICS != "token":
            return None
        key = sha256((bearer_text(request.headers.get("Authorization", "")) or "").encode()).digest()
        now = self._clock()
        try:
            if brings_right(request, Right.READ):
                self._let_in = {one: at for one, at in self._let_in.items() if now - at < REMEMBERED_SECONDS}
                self._let_in[key] = now
                return None
        except Error:
            if now - self._let_in.get(key, -REMEMBERED_SECONDS) < REMEMBERED_SECONDS:
                return None
            return ScrapeRefusal(503, "The database does not answer: no token can be looked up.\n")
        self._let_in.pop(key, None)
        return ScrapeRefusal(401, "Send a token with the right `read` (Authorization: Bearer ...).\n")


door = ScrapeGuard()
"""Of this process."""
