import logging
from functools import partial

import orjson
import redis
from django.conf import settings
from django.db import transaction

from common.live.redis import breaker, connection
from common.live.topics import name_of

logger = logging.getLogger(__name__)

CHANNELS = "slipway:live:"
LOOKS = CHANNELS + "looks"
"""The channel on which every process hears that a topic's rows changed."""


def touch(kind: str, key: object = "") -> None:
    """Tell every page that follows `kind:key` to look again, once the present transaction has committed.

    From any process; costs a message. Never raises: without Redis the pages look again by themselves.
    """
    transaction.on_commit(partial(_publish, name_of(kind, str(key))), robust=True)


def _publish(name: str) -> None:
    if breaker.is_open:
        return
    try:
        connection(settings.REDIS_URL).publish(LOOKS, orjson.dumps(name))
    except (redis.RedisError, OSError) as error:
        breaker.trip()
        logger.warning("Redis does not answer (%s): open pages do not hear that %s changed", error, name)
