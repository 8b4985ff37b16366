import logging
from functools import partial

import orjson
from django.db import transaction

from common.live.redis import NotShared, ask, breaker
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
    was_silent = breaker.is_open
    try:
        ask(lambda client: client.publish(LOOKS, orjson.dumps(name)))
    except NotShared as error:
        if not was_silent:
            logger.warning("Open pages do not hear that %s changed: %s", name, error)
