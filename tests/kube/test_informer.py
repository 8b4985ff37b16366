"""Whatever a cluster does to those who watch it, in the end they know what is there."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kube.base import ChangeType, CollectedItems, Object, ObjectChange
from kube.errors import ApiUnreachable, HistoryLost
from kube.informer import LONGEST_WAIT_SECONDS, Informer
from kube.resources import PODS


class Cluster:
    """Objects with a history, of which old parts are forgotten, and a list of mishaps still to come."""

    def __init__(self) -> None:
        self.version = 100
        self.objects: dict[str, Object] = {}
        self.history: list[ObjectChange] = []
        self.oldest = 100
        self.mishaps: list[str] = []
        self.lists = 0

    def change(self, uid: str, deed: str) -> None:
        self.version += 1
        if deed == "delete":
            if uid not in self.objects:
                return
            item = self.objects.pop(uid)
            kind = ChangeType.DELETED
        else:
            kind = ChangeType.MODIFIED if uid in self.objects else ChangeType.ADDED
            item = self.objects.setdefault(uid, {"metadata": {"uid": uid}})
        item["metadata"]["resourceVersion"] = str(self.version)
        self.history.append(ObjectChange(kind, copy.deepcopy(item), str(self.version)))

    def forget(self) -> None:
        self.history.clear()
        self.oldest = self.version

    def gather(self, resource: Any, *, keep: Any, **_: Any) -> CollectedItems[Any]:
        if self._mishap() == "down":
            raise ApiUnreachable("The cluster does not answer.")
        self.lists += 1
        kept = tuple(keep(copy.deepcopy(one)) for one in self.objects.values())
        return CollectedItems(kept, str(self.version))

    @contextmanager
    def watch(self, resource: Any, *, since: str, **_: Any) -> Iterator[Iterator[ObjectChange]]:
        mishap = self._mishap()
        if mishap == "down":
            raise ApiUnreachable("The cluster does not answer.")
        if int(since) < self.oldest:
            raise HistoryLost("too old resource version")
        yield self._changes(since, mishap)

    def _changes(self, since: str, mishap: str) -> Iterator[ObjectChange]:
        due = [change for change in self.history if int(change.version) > int(since)]
        if mishap == "doubled":
            due = [change for change in due for _ in range(2)]
        if mishap == "old ones again":
            due = [*self.history, *due]
        for number, change in enumerate(due):
            if mishap == "cut" and number == 1:
                raise ApiUnreachable("The connection was cut.")
            if mishap == "ends" and number == 1:
                return
            if mishap == "lost" and number == 1:
                raise HistoryLost("410")
            yield change
        yield ObjectChange(ChangeType.BOOKMARK, {}, str(self.version))

    def _mishap(self) -> str:
        return self.mishaps.pop(0) if self.mishaps else ""


class Clock:
    at = 0.0

    def __call__(self) -> float:
        self.at += 2.0
        return self.at


def informer_of(cluster: Cluster, **options: Any) -> Informer[str]:
    return Informer(
        cluster,  # type: ignore[arg-type] - lists and watches are all that it asks for
        PODS,
        keep=lambda item: str(item["metadata"]["resourceVersion"]),
        clock=Clock(),
        chance=lambda: 1.0,
        **options,
    )


def truth(cluster: Cluster) -> dict[str, str]:
    return {uid: item["metadata"]["resourceVersion"] for uid, item in cluster.objects.items()}


deeds = st.one_of(
    st.tuples(st.sampled_from("abcd"), st.sampled_from(["put", "put", "delete"])),
    st.just("forget"),
    st.just("look"),
    st.sampled_from(["down", "cut", "ends", "lost", "doubled", "old ones again"]).map(
        lambda one: ("mishap", one)
    ),
)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(deeds, max_size=60))
def test_what_is_kept_becomes_what_is_there_after_any_mishaps(history: list[Any]) -> None:
    cluster = Cluster()
    informer, stop = informer_of(cluster), Event()
    for deed in history:
        if deed == "forget":
            cluster.forget()
        elif deed == "look":
            informer.step(stop)
        elif deed[0] == "mishap":
            cluster.mishaps.append(deed[1])
        else:
            cluster.change(*deed)
    cluster.mishaps.clear()
    for _ in range(3):
        informer.step(stop)
    assert informer.snapshot() == truth(cluster)
    assert informer.problem == ""


def test_nothing_is_listed_anew_while_a_watch_can_go_on() -> None:
    cluster = Cluster()
    informer, stop = informer_of(cluster), Event()
    for number in range(20):
        cluster.change("abc"[number % 3], "put")
        cluster.mishaps.append("ends")
        informer.step(stop)
    assert cluster.lists == 1


def test_before_anything_was_heard_nothing_is_known() -> None:
    cluster = Cluster()
    cluster.mishaps = ["down"]
    informer, stop = informer_of(cluster), Event()
    assert informer.age_seconds is None
    informer.step(stop)
    assert informer.age_seconds is None
    assert informer.problem == "The cluster does not answer."
    informer.step(stop)
    assert informer.age_seconds is not None


def test_what_is_kept_ages_while_the_cluster_is_silent_and_stays() -> None:
    cluster = Cluster()
    cluster.change("a", "put")
    informer, stop = informer_of(cluster), Event()
    informer.step(stop)
    young = informer.age_seconds
    cluster.mishaps = ["down"] * 5
    for _ in range(5):
        informer.step(stop)
    assert informer.snapshot() == truth(cluster)
    assert young is not None
    assert informer.age_seconds is not None
    assert informer.age_seconds > young


def test_a_cluster_that_is_down_is_asked_ever_less_often() -> None:
    cluster = Cluster()
    cluster.mishaps = ["down"] * 10
    informer, stop = informer_of(cluster), Event()
    waits = [informer.step(stop) for _ in range(10)]
    assert waits[0] < waits[3] < waits[-1] == LONGEST_WAIT_SECONDS
    assert informer.step(stop) == 0.0
    cluster.mishaps = ["down"]
    assert informer.step(stop) == waits[0]


def test_whoever_is_interested_hears_what_changed() -> None:
    heard: list[tuple[str | None, str | None]] = []
    cluster = Cluster()
    cluster.change("a", "put")
    informer, stop = informer_of(cluster, changed=lambda *change: heard.append(change)), Event()
    informer.step(stop)
    cluster.change("b", "put")
    cluster.change("a", "delete")
    informer.step(stop)
    assert heard == [(None, "101"), (None, "102"), ("101", None)]


def test_after_a_gap_only_what_differs_is_told() -> None:
    heard: list[tuple[str | None, str | None]] = []
    cluster = Cluster()
    for uid in "abc":
        cluster.change(uid, "put")
    informer, stop = informer_of(cluster, changed=lambda *change: heard.append(change)), Event()
    informer.step(stop)
    heard.clear()
    cluster.change("b", "put")
    cluster.change("c", "delete")
    cluster.forget()
    for _ in range(2):
        informer.step(stop)
    assert sorted(heard, key=str) == [("102", "104"), ("103", None)]
    assert cluster.lists == 2
