"""Who sends token after token that does not work is slowed down, by address and in all processes together.

A token that works is never refused for its neighbours' sake: behind one address sit whole offices.
"""

import math
import time

from django.utils.translation import gettext_lazy as _
from rest_framework.exceptions import Throttled

from common.live.redis import NotShared, ask

MOST = 30
"""In a window of `SECONDS`."""
SECONDS = 60
_KEY = "slipway:failed-tokens:"


class TooManyFailedTokens(Throttled):
    default_detail = _("Too many failed tokens from this address. Fix the token, then try again.")

    def __init__(self, wait: float) -> None:
        super().__init__(detail=self.default_detail)
        # Only for the header: Django REST framework would say it in words of its own.
        self.wait = math.ceil(wait)


def note_failed_token(address: str) -> None:
    """Raises TooManyFailedTokens. While Redis is away nobody counts."""
    window = int(time.time()) // SECONDS
    key = f"{_KEY}{address}:{window}"
    try:
        failed = int(str(ask(lambda redis: redis.incr(key))))
        if failed == 1:
            ask(lambda redis: redis.expire(key, SECONDS))
    except NotShared:
        return
    if failed > MOST:
        raise TooManyFailedTokens(wait=(window + 1) * SECONDS - time.time())
