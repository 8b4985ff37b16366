"""Changes in a cluster wake its rows at once, through one process at a time."""

from collections.abc import Callable
from datetime import timedelta
from threading import Event
from typing import Any

import pytest
from django.utils import timezone

from clusters import watching
from clusters.backends.base import ClusterUnreachable
from clusters.backends.pulls import ObservedPull
from clusters.models import Cluster
from clusters.states import ClusterKind
from clusters.watching import BatchedCall, ClusterWatcher
from tests.clusters.world import Scene
from tests.patience import eventually

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.stack]

LATER = timedelta(hours=1)


class Telling:
    """A backend whose cluster says what a test makes it say."""

    def __init__(self) -> None:
        self.stops: list[Event] = []
        self.deployment_changed: Callable[[str], None] = lambda name: None
        self.machines_changed: Callable[[], None] = lambda: None

        self.seen: dict[str, bytes] = {}
        self.pulled: list[ObservedPull] = []
        self.age_seconds: float | None = None

    def watch(self, stop: Event, **tell: Any) -> "Telling":
        self.stops.append(stop)
        self.deployment_changed = tell["deployment_changed"]
        self.machines_changed = tell["machines_changed"]
        return self

    def machines(self) -> dict[str, bytes]:
        return dict(self.seen)

    def workers(self) -> tuple[dict[str, bytes], float | None]:
        return {}, None

    def events(self) -> dict[str, bytes]:
        return {}

    def pulls(self) -> list[ObservedPull]:
        pulls, self.pulled = self.pulled, []
        return pulls

    def pods(self) -> tuple[dict[str, bytes], float | None]:
        return {}, None


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Telling:
    backend = Telling()
    monkeypatch.setattr(watching, "backend_of", lambda cluster: backend)
    monkeypatch.setattr(watching, "GATHERED_SECONDS", 0.05)
    return backend


@pytest.fixture
def cluster(valkey: Any) -> Cluster:
    return Cluster.objects.create(
        name="prod", kind=ClusterKind.KUBERNETES, next_at=timezone.now() + LATER, revision=1
    )


def is_due(row: Any) -> bool:
    row.refresh_from_db()
    return bool(row.next_at <= timezone.now())


def test_machines_that_change_have_their_cluster_surveyed_at_once(cluster: Cluster, backend: Telling) -> None:
    ClusterWatcher().look()
    assert not is_due(cluster)
    backend.machines_changed()
    eventually(lambda: is_due(cluster))


def test_workers_that_change_wake_their_deployment_and_no_other(cluster: Cluster, backend: Telling) -> None:
    world, later = Scene(), timezone.now() + LATER
    mine, other = (world.deployment(name, cluster=cluster, next_at=later) for name in ("mine", "other"))
    stuck = world.deployment("stuck", cluster=cluster, next_at=later, stuck_at=timezone.now())
    ClusterWatcher().look()
    for name in ("mine", "stuck", "nobody"):
        backend.deployment_changed(name)
    eventually(lambda: is_due(mine))
    assert not is_due(stuck)
    assert not is_due(other)


def test_one_process_watches_a_cluster_until_another_has_to(
    cluster: Cluster, backend: Telling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "CLAIM_SECONDS", 1)
    first, second = ClusterWatcher(owner="first"), ClusterWatcher(owner="second")
    for watcher in (first, second, first):
        watcher.look()
    assert len(backend.stops) == 1

    def second_watches() -> bool:
        second.look()
        return len(backend.stops) == 2

    eventually(second_watches, every=0.2)
    first.look()
    assert [stop.is_set() for stop in backend.stops] == [True, False]


def test_a_cluster_that_was_changed_is_watched_anew_and_one_that_is_gone_no_more(
    cluster: Cluster, backend: Telling
) -> None:
    watcher = ClusterWatcher()
    watcher.look()
    Cluster.objects.update(revision=2)
    watcher.look()
    assert [stop.is_set() for stop in backend.stops] == [True, False]
    Cluster.objects.all().delete()
    watcher.look()
    assert all(stop.is_set() for stop in backend.stops)


def test_a_cluster_that_was_removed_is_watched_no_more(cluster: Cluster, backend: Telling) -> None:
    watcher = ClusterWatcher()
    watcher.look()
    assert watcher._watches
    cluster.change(removed_at=timezone.now())
    watcher.look()
    assert not watcher._watches


def test_a_cluster_out_of_reach_holds_up_no_other(
    cluster: Cluster, backend: Telling, monkeypatch: pytest.MonkeyPatch
) -> None:
    Cluster.objects.create(name="second", kind=ClusterKind.KUBERNETES, next_at=timezone.now() + LATER)

    def backend_of(row: Cluster) -> Telling:
        if row.name == "prod":
            raise ClusterUnreachable("It does not answer.")
        return backend

    monkeypatch.setattr(watching, "backend_of", backend_of)
    ClusterWatcher().look()
    assert len(backend.stops) == 1


def test_many_changes_in_a_moment_are_one_call() -> None:
    calls: list[frozenset[str]] = []
    gathered = BatchedCall(calls.append, seconds=0.1)
    for name in ("a", "b", "a"):
        gathered.add(name)
    eventually(lambda: bool(calls))
    gathered.add("c")
    eventually(lambda: len(calls) == 2)
    assert calls == [frozenset("ab"), frozenset("c")]
