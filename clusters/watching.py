"""Clusters that can be heard are: what changes in one wakes its rows before their next look.

One process does it for a cluster, whichever holds its claim in Redis; when that ends, another one takes over.
Nothing depends on it: rows are looked at all the same, only later.
"""

import logging
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event, Lock, Thread, Timer

from django.db import close_old_connections

from clusters.backends.base import BackendError
from clusters.backends.configured import backend_of, keep_only
from clusters.backends.extras import Watchable
from clusters.backends.kinds import abilities_of
from clusters.models import Cluster, Deployment
from clusters.services.image_pulls import record_pulls
from clusters.shared_machines import EVENTS, MACHINES, PODS, WORKERS, Publisher, claim_key
from common import clock
from common.live.redis import NotShared, ask
from common.reconcile import kernel

logger = logging.getLogger(__name__)

LOOK_SECONDS = 5.0
CLAIM_SECONDS = 20
GATHERED_SECONDS = 1.0
"""What changes within it wakes a row once: all machines of a cluster may change in a moment."""

_CLAIM = """
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('expire', KEYS[1], ARGV[2]) end
return redis.call('set', KEYS[1], ARGV[1], 'NX', 'EX', ARGV[2]) and 1 or 0
"""


@dataclass(frozen=True)
class _ClusterWatch:
    revision: int
    stop: Event
    share: Callable[[], None]


class ClusterWatcher:
    """`look` begins and ends what is due; `run` does so again and again, in a thread of its own."""

    def __init__(self, *, owner: str = "") -> None:
        self._owner = owner or f"{socket.gethostname()}:{os.getpid()}"
        self._watches: dict[int, _ClusterWatch] = {}

    def run(self, stop: Event) -> None:
        while not stop.wait(LOOK_SECONDS):
            try:
                close_old_connections()
                self.look()
            except Exception:
                logger.exception("Clusters cannot be watched at the moment: they are looked at all the same")
        self._end(*self._watches)

    def look(self) -> None:
        present = list(Cluster.objects.present())
        keep_only({one.pk for one in present})
        clusters = {
            one.pk: one for one in present if abilities_of(one.kind).tells_changes and self._is_ours(one)
        }
        for pk, watch in list(self._watches.items()):
            if pk not in clusters or clusters[pk].revision != watch.revision:
                self._end(pk)
        for pk, cluster in clusters.items():
            if pk in self._watches:
                self._watches[pk].share()
            else:
                self._begin(cluster)

    def _is_ours(self, cluster: Cluster) -> bool:
        key = claim_key(cluster.pk)
        try:
            return bool(ask(lambda client: client.eval(_CLAIM, 1, key, self._owner, CLAIM_SECONDS)))
        except NotShared:
            return False

    def _begin(self, cluster: Cluster) -> None:
        try:
            backend = backend_of(cluster)
        except BackendError:
            return  # its row says so
        if not isinstance(backend, Watchable):
            return
        stop = Event()
        pk = cluster.pk
        publisher, pods, teller, workers = (
            Publisher(cluster, self._owner, what) for what in (MACHINES, PODS, EVENTS, WORKERS)
        )

        def share_workers() -> None:
            present, age = heard.workers()
            if age is not None:
                workers.share(present, heard_at=clock.seconds() - age)

        def share() -> None:
            share_workers()
            age = heard.age_seconds
            if age is not None:
                publisher.share(heard.machines(), heard_at=clock.seconds() - age)
                standing, pods_age = heard.pods()
                if pods_age is not None:
                    pods.share(standing, heard_at=clock.seconds() - pods_age)
                teller.share(heard.events(), heard_at=clock.seconds() - age)
                if pulls := heard.pulls():
                    record_pulls(cluster, pulls)

        def tell(_: frozenset[str]) -> None:
            share()
            _wake_cluster(pk)

        def tell_of_workers(names: frozenset[str]) -> None:
            share_workers()
            _wake_deployments(pk, names)

        tell_machines, wake_workers = BatchedCall(tell), BatchedCall(tell_of_workers)
        heard = backend.watch(
            stop, deployment_changed=wake_workers.add, machines_changed=lambda: tell_machines.add("machines")
        )
        self._watches[pk] = _ClusterWatch(cluster.revision, stop, share)

    def _end(self, *clusters: int) -> None:
        for pk in clusters:
            self._watches.pop(pk).stop.set()


class BatchedCall:
    """Calls with all that was added since the last call, `GATHERED_SECONDS` after the first of it."""

    def __init__(self, call: Callable[[frozenset[str]], None], *, seconds: float = GATHERED_SECONDS) -> None:
        self._call = call
        self._seconds = seconds
        self._names: set[str] = set()
        self._lock = Lock()

    def add(self, name: str) -> None:
        with self._lock:
            is_first = not self._names
            self._names.add(name)
        if is_first:
            timer = Timer(self._seconds, self._pass_on)
            timer.daemon = True
            timer.start()

    def _pass_on(self) -> None:
        with self._lock:
            names, self._names = frozenset(self._names), set()
        try:
            close_old_connections()
            self._call(names)
        except Exception:
            logger.exception("What changed in a cluster woke nobody")
        finally:
            close_old_connections()


def _wake_deployments(cluster: int, names: frozenset[str]) -> None:
    """But not those that wait for a person: their workers ending again is no news."""
    for row in Deployment.objects.filter(cluster=cluster, name__in=names, stuck_at=None):
        kernel.wake(row)


def _wake_cluster(pk: int) -> None:
    for row in Cluster.objects.present().filter(pk=pk, stuck_at=None):
        kernel.wake(row)


def watch_clusters() -> None:
    """Watch clusters until this process ends."""
    Thread(target=ClusterWatcher().run, args=(Event(),), name="watching clusters", daemon=True).start()
