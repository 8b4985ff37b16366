"""The job queue of Slipway's own serving runtime: what waits for the workers of one deployment."""

from capacity.queues.base import QueueSample, QueueSilent
from common.errors import Unavailable
from common.job_queue import ask_queue


class JobsOfDeployment:
    """Jobs of a service. running: jobs that its workers say they have in hand."""

    def __init__(self, service: str, target: str, running: int) -> None:
        self._pool, self._running = (service, target), running

    def sample(self) -> QueueSample:
        try:
            unfinished, added = ask_queue(lambda _, store: store.counts(self._pool))
        except Unavailable as error:
            raise QueueSilent(str(error)) from None
        in_hand = min(unfinished, self._running)
        return QueueSample(unfinished - in_hand, in_hand, added)
