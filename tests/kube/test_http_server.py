"""The fake cluster over HTTP, asked by the real client."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from kube.base import ChangeType, KubernetesClient
from kube.errors import NotAuthenticated, NotFound
from kube.fake.http_server import FakeHttpServer
from kube.fake.server import FakeApiServer
from kube.fake.wire import ADMIN
from kube.kubeconfig import access_of
from kube.real.transport import connect
from kube.resources import CONFIG_MAPS, Ref


@pytest.fixture
def served() -> Iterator[FakeHttpServer]:
    server = FakeHttpServer(FakeApiServer(), tokens={"t0ken": ADMIN})
    yield server
    server.close()


def client_of(server: FakeHttpServer, token: str = "t0ken") -> KubernetesClient:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "fake",
        "clusters": [{"name": "fake", "cluster": {"server": server.url}}],
        "users": [{"name": "me", "user": {"token": token}}],
        "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "me"}}],
    }
    return connect(access_of(yaml.safe_dump(config)))


def settings_map(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}}


def test_what_is_written_is_read_and_who_has_no_token_is_refused(served: FakeHttpServer) -> None:
    client = client_of(served)
    client.apply(settings_map("one") | {"data": {"a": "1"}})
    assert client.get(Ref(CONFIG_MAPS, "one", "default"))["data"] == {"a": "1"}
    with pytest.raises(NotFound):
        client.get(Ref(CONFIG_MAPS, "two", "default"))
    with pytest.raises(NotAuthenticated):
        client_of(served, token="guessed").get(Ref(CONFIG_MAPS, "one", "default"))


def test_a_watch_hears_what_happens_while_it_lasts(served: FakeHttpServer) -> None:
    client = client_of(served)
    since = client.list(CONFIG_MAPS, namespace="default").version
    with client.watch(CONFIG_MAPS, since=since, namespace="default", for_seconds=20) as changes:
        writer = threading.Timer(0.3, lambda: client_of(served).create(settings_map("late")))
        writer.start()
        change = next(change for change in changes if change.type is not ChangeType.BOOKMARK)
        writer.join()
    assert (change.type, change.item["metadata"]["name"]) == (ChangeType.ADDED, "late")
