"""The transport of Redis, which loses 30 % of the messages to queues and sends 30 % twice."""

import random
from typing import Any

from kombu.transport import redis

LOST, DOUBLED = 0.3, 0.3


class LossyChannel(redis.Channel):
    def _put(self, queue: str, message: Any, **how: Any) -> None:
        fate = random.random()
        if fate < LOST:
            return
        super()._put(queue, message, **how)
        if fate > 1 - DOUBLED:
            super()._put(queue, message, **how)


class LossyTransport(redis.Transport):
    Channel = LossyChannel
