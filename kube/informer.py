"""Keeps what a cluster has of one kind of object: lists once, then hears what changes.

Whatever is cut, lost, doubled or late on the way: once the cluster answers again, what is kept is what is
there.
"""

import logging
import random
import time
from collections import deque
from collections.abc import Callable, Mapping
from threading import Event, Lock
from typing import Generic

from kube.base import ChangeType, Kept, KubernetesClient, Object, ObjectChange
from kube.errors import HistoryLost, KubeError, Throttled
from kube.resources import Resource

logger = logging.getLogger(__name__)

WATCH_SECONDS = 55.0
"""Then another one goes on from there. A connection that died without a word is noticed soon after."""
SHORT_SECONDS = 1.0
"""A watch that ends sooner, and silent, is a failure: asking again at once would be a flood."""
FIRST_WAIT_SECONDS = 0.5
LONGEST_WAIT_SECONDS = 30.0
REMEMBERED_CHANGES = 1_024
"""Of those a second telling is known as such."""


class Informer(Generic[Kept]):
    """Objects of one kind of one cluster. `run` in a thread; read from any.

    `keep` makes of an object what is kept of it, and is all that the memory pays for. `changed` is called, in
    the running thread, with what was kept of an object before and after a change of that; None: it was, or
    is, not there.
    """

    def __init__(
        self,
        client: KubernetesClient,
        resource: Resource,
        *,
        keep: Callable[[Object], Kept],
        changed: Callable[[Kept | None, Kept | None], None] = lambda before, after: None,  # noqa: ARG005
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._client = client
        self._resource = resource
        self._keep = keep
        self._changed = changed
        self._namespace = namespace
        self._labels = labels
        self._fields = fields
        self._clock = clock
        self._chance = chance
        self._lock = Lock()
        self._kept: dict[str, Kept] = {}
        self._version = ""
        """Of the last change; empty: everything is to be listed."""
        self._listed = 0
        """What changed up to this version was listed."""
        self._taken: deque[int] = deque(maxlen=REMEMBERED_CHANGES)
        self._failures = 0
        self._heard_at: float | None = None
        self.problem = ""
        """Why nothing is heard at the moment, in words; empty while something is."""
        self.lists = 0
        """How often everything was listed."""

    def snapshot(self) -> Mapping[str, Kept]:
        """Return the objects by uid; a copy that does not change any more."""
        with self._lock:
            return dict(self._kept)

    @property
    def age_seconds(self) -> float | None:
        """Return the seconds since anything was heard; None: never anything, so that nothing may be
        concluded.
        """
        return None if self._heard_at is None else self._clock() - self._heard_at

    def confirm(self) -> None:
        """The cluster has answered something else just now: whoever watches it without trouble, and hears
        nothing, is up to date. A connection that died without a word deceives it until the watch's time is
        over."""
        if self._heard_at is not None and self._version and not self.problem:
            self._heard_at = self._clock()

    def run(self, stop: Event) -> None:
        """Until `stop`, which ends a watch in progress only when that hears something or its time is over."""
        while not stop.is_set():
            stop.wait(self.step(stop))

    def step(self, stop: Event) -> float:
        """Run one list or one watch. Returns how many seconds to wait before the next."""
        try:
            if not self._version:
                self._list()
            began_at, version = self._clock(), self._version
            self._watch(stop)
            if self._clock() - began_at < SHORT_SECONDS and self._version == version:
                return self._wait()
        except HistoryLost:
            self._version = ""
            return self._wait()
        except KubeError as error:
            self.problem = str(error)
            asked = error.retry_after_seconds if isinstance(error, Throttled) else None
            return max(self._wait(), min(asked or 0.0, LONGEST_WAIT_SECONDS))
        except Exception as error:
            # A thread that ended of it would be silent for ever.
            logger.exception("A %s could not be taken", self._resource.kind)
            self._version = ""
            self.problem = f"A {self._resource.kind} of the cluster cannot be read: {error!r}"
            return self._wait()
        self._failures = 0
        return 0.0

    def _list(self) -> None:
        listing = self._client.gather(
            self._resource,
            keep=lambda item: (item["metadata"]["uid"], self._keep(item)),
            namespace=self._namespace,
            labels=self._labels,
            fields=self._fields,
        )
        kept = dict(listing.items)
        with self._lock:
            former, self._kept = self._kept, kept
        self._version = listing.version
        self._listed = int(listing.version)
        self._taken.clear()
        self.lists += 1
        self._heard()
        for uid in former.keys() | kept.keys():
            self._tell(former.get(uid), kept.get(uid))

    def _watch(self, stop: Event) -> None:
        with self._client.watch(
            self._resource,
            since=self._version,
            namespace=self._namespace,
            labels=self._labels,
            fields=self._fields,
            for_seconds=WATCH_SECONDS,
        ) as changes:
            self._heard()
            for change in changes:
                self._take(change)
                if stop.is_set():
                    return
        self._heard()

    def _take(self, change: ObjectChange) -> None:
        self._heard()
        self._failures = 0
        # Versions of one kind can be compared as numbers (since 1.35 by contract, always in fact).
        version = int(change.version)
        if version <= int(self._version):
            if change.type is ChangeType.BOOKMARK or version <= self._listed or version in self._taken:
                return
            raise HistoryLost("A change came after later ones.")
        self._version = change.version
        if change.type is ChangeType.BOOKMARK:
            return
        self._taken.append(version)
        uid = change.item["metadata"]["uid"]
        kept = None if change.type is ChangeType.DELETED else self._keep(change.item)
        with self._lock:
            former = self._kept.pop(uid, None)
            if kept is not None:
                self._kept[uid] = kept
        self._tell(former, kept)

    def _tell(self, before: Kept | None, after: Kept | None) -> None:
        if before != after:
            self._changed(before, after)

    def _heard(self) -> None:
        self._heard_at = self._clock()
        self.problem = ""

    def _wait(self) -> float:
        """Ever longer, and not all informers at once after an outage."""
        ceiling = min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2.0**self._failures)
        self._failures = min(self._failures + 1, 16)
        return ceiling / 2 + self._chance() * ceiling / 2
