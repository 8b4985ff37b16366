import logging
from collections.abc import Iterable
from functools import partial
from threading import Lock, Timer

import orjson
from django.db import transaction

from common.live.redis import SILENCE_SECONDS, NotShared, ask
from common.live.topics import name_of

logger = logging.getLogger(__name__)

CHANNELS = "slipway:live:"
LOOKS = CHANNELS + "looks"
"""The channel on which every process hears that a topic's rows changed."""

MOST_UNHEARD = 1_000
"""Topics that a process remembers to name again; of more, pages learn at the next change."""


def touch(kind: str, key: object = "") -> None:
    """Tell every page that follows `kind:key` to look again, once the present transaction has committed.

    From any process; costs a message. Never raises: what Redis does not take now is said again later.
    """
    transaction.on_commit(partial(_publish, name_of(kind, str(key))), robust=True)


class _Unheard:
    """Changes that this process could not tell. A page that missed one would show the past until the next."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._lock = Lock()
        self._timer: Timer | None = None

    def add(self, names: Iterable[str]) -> bool:
        """True when it is the first that Redis did not take."""
        with self._lock:
            self._names.update(names)
            while len(self._names) > MOST_UNHEARD:
                self._names.pop()
            if self._timer is not None:
                return False
            self._wait()
            return True

    def _wait(self) -> None:
        self._timer = Timer(SILENCE_SECONDS, self._say)
        self._timer.daemon = True
        self._timer.start()

    def _say(self) -> None:
        with self._lock:
            names, self._names = self._names, set()
        try:
            _say_to_all(names)
        except NotShared:
            with self._lock:
                self._names |= names
                self._wait()
            return
        with self._lock:
            self._timer = None
            if self._names:
                self._wait()


_unheard = _Unheard()


def _publish(name: str) -> None:
    try:
        _say_to_all([name])
    except NotShared as error:
        if _unheard.add([name]):
            logger.warning("Open pages hear of what changes when Redis answers again: %s, %s", name, error)


def _say_to_all(names: Iterable[str]) -> None:
    for name in names:
        ask(lambda client, name=name: client.publish(LOOKS, orjson.dumps(name)))  # type: ignore[misc]
