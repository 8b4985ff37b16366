"""Whatever goes wrong with lists and watches of an API server, in the end what it has is known."""

from collections.abc import Callable
from contextlib import suppress
from threading import Event
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kube.client import KubeClient
from kube.errors import NotFound
from kube.fake.chaos import RETRY_AFTER_SECONDS, Chaos, Mishap, WatchFault
from kube.fake.server import FakeApiServer
from kube.fake.transport import FakeTransport
from kube.informer import Informer
from kube.resources import CONFIG_MAPS, Ref

pytestmark = pytest.mark.any_database
LABEL = "watched"


class World:
    def __init__(self, keep: Callable[[dict[str, Any]], str] | None = None) -> None:
        self.server = FakeApiServer()
        self.client = KubeClient(FakeTransport(self.server))
        transport = FakeTransport(self.server, longest_watch_seconds=0.0)
        self.chaos = Chaos(self.server)
        transport.faults.append(self.chaos)
        transport.spoil = self.chaos.spoil
        self.now = 0.0
        self.informer = Informer(
            KubeClient(transport, page_items=2),
            CONFIG_MAPS,
            keep=keep or (lambda item: str(item["metadata"]["resourceVersion"])),
            namespace="default",
            labels=LABEL,
            clock=self._clock,
            chance=lambda: 1.0,
        )

    def _clock(self) -> float:
        self.now += 2.0
        return self.now

    def look(self) -> float:
        return self.informer.step(Event())

    def put(self, name: str, *, is_watched: bool = True) -> None:
        labels = {LABEL: "yes" if is_watched else None}
        metadata: dict[str, Any] = {"name": name, "namespace": "default", "labels": {LABEL: "yes"}}
        try:
            self.client.patch(
                Ref(CONFIG_MAPS, name, "default"),
                {"metadata": {"labels": labels, "annotations": {"n": str(self.server.storage.revision)}}},
            )
        except NotFound:
            if is_watched:
                self.client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})

    def delete(self, name: str) -> None:
        with suppress(NotFound):
            self.client.delete(Ref(CONFIG_MAPS, name, "default"))

    def change(self, deed: str, name: str) -> None:
        """`leave`: what is watched no more is there all the same."""
        if deed == "delete":
            self.delete(name)
        else:
            self.put(name, is_watched=deed == "put")

    @property
    def truth(self) -> dict[str, str]:
        found = self.client.list(CONFIG_MAPS, namespace="default", labels=LABEL).items
        return {one["metadata"]["uid"]: one["metadata"]["resourceVersion"] for one in found}


changes = st.tuples(st.sampled_from(["put", "put", "delete", "leave"]), st.sampled_from("abcde"))
rounds = st.tuples(
    st.lists(changes, max_size=4),
    st.lists(st.none() | st.sampled_from(Mishap), max_size=3),
    st.none() | st.sampled_from(WatchFault),
)
"""What changes, what goes wrong with calls and with the watch of the look that follows."""


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=100)
@given(st.lists(rounds, min_size=1, max_size=12))
def test_what_is_kept_becomes_what_the_api_server_has(course: list[Any]) -> None:
    world = World()
    for changed, calls, spoiling in course:
        for deed, name in changed:
            world.change(deed, name)
        world.chaos.calls.extend(calls)
        world.chaos.watches.append(spoiling)
        world.look()
    world.chaos.calm()
    for _ in range(3):
        world.look()
    assert world.informer.snapshot() == world.truth
    assert world.informer.problem == ""


@pytest.mark.parametrize("is_watching", [False, True], ids=["list", "watch"])
def test_a_cluster_that_is_overloaded_is_left_alone_as_long_as_it_asks(is_watching: bool) -> None:
    world = World()
    if is_watching:
        world.look()
    world.chaos.calls.append(Mishap.OVERLOADED)
    assert world.look() >= RETRY_AFTER_SECONDS
    assert world.informer.problem == "too many requests"


def test_an_expired_credential_is_said_and_what_was_known_stays() -> None:
    world = World()
    world.put("a")
    world.look()
    known = world.informer.snapshot()
    world.put("b")
    world.chaos.watches.append(WatchFault.EXPIRED)
    assert world.look() > 0
    assert "does not accept the credential" in world.informer.problem
    assert known.items() <= world.informer.snapshot().items()
    world.look()
    assert world.informer.problem == ""
    assert world.informer.lists == 1


def test_changes_in_the_wrong_order_are_noticed() -> None:
    world = World()
    world.look()
    world.put("a")
    world.put("b")
    world.chaos.watches.append(WatchFault.SWAPPED)
    for _ in range(3):
        world.look()
    assert world.informer.snapshot() == world.truth


def test_an_object_that_cannot_be_read_is_said_and_ends_nothing() -> None:
    def keep(item: dict[str, Any]) -> str:
        return str(item["data"]["must"])

    world = World(keep)
    world.look()
    world.put("a")
    assert world.look() > 0
    assert "KeyError" in world.informer.problem
    world.delete("a")
    for _ in range(2):
        world.look()
    assert world.informer.problem == ""
    assert world.informer.snapshot() == {}
