"""Pods of the fake cluster are real processes, and the API says of them what it says of containers."""

import base64
import itertools
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controlplane.environment import PROJECT
from kube.client import KubeClient
from kube.errors import NotFound
from kube.fake.kubelet import Kubelet
from kube.fake.server import FakeApiServer
from kube.fake.transport import FakeTransport
from kube.resources import EVENTS, PODS, Ref
from tests.patience import eventually

pytestmark = pytest.mark.stack

SERVES = """
import http.server, sys
print("serving", flush=True)
http.server.ThreadingHTTPServer((sys.argv[1], 8000), http.server.SimpleHTTPRequestHandler).serve_forever()
"""
STAYS = "import time; time.sleep(60)"
addresses = (f"127.9.{number // 250}.{number % 250 + 1}" for number in itertools.count())


class Node:
    def __init__(self, root: Path) -> None:
        self.server = FakeApiServer()
        self.client = KubeClient(FakeTransport(self.server))
        self.server.make("nodes", {"metadata": {"name": "box"}})
        self.is_cut_off = False
        self.kubelet = Kubelet(
            self.client,
            "box",
            root,
            addresses,
            PROJECT,
            events=self.server.events,
            is_cut_off=lambda: self.is_cut_off,
        )

    def run(self, name: str, *command: str, **spec: Any) -> Ref:
        container = {
            "name": "worker",
            "image": "registry.example/worker:1",
            "command": [*command],
            "ports": [{"name": "http", "containerPort": 8000}],
        } | spec.pop("container", {})
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"nodeName": "box", "containers": [container]} | spec,
        }
        self.client.create(pod)
        return Ref(PODS, name, "default")

    def status(self, pod: Ref) -> dict[str, Any]:
        self.kubelet.tick()
        found: dict[str, Any] = self.client.get(pod)["status"]
        return found

    def is_ready(self, pod: Ref) -> bool:
        conditions = {one["type"]: one["status"] for one in self.status(pod).get("conditions", ())}
        return conditions.get("Ready") == "True"

    def state(self, pod: Ref) -> dict[str, Any]:
        (container,) = self.status(pod).get("containerStatuses") or [{}]
        found: dict[str, Any] = container
        return found


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path / "box")
    yield node
    node.kubelet.stop()


def test_two_pods_listen_on_the_same_port_at_addresses_of_their_own(node: Node) -> None:
    probe = {"readinessProbe": {"httpGet": {"path": "/README.md", "port": "http"}}}
    pods = [node.run(name, "python", "-c", SERVES, "0.0.0.0", container=probe) for name in ("one", "two")]
    eventually(lambda: all(node.is_ready(pod) for pod in pods))
    ips = [node.status(pod)["podIP"] for pod in pods]
    assert len(set(ips)) == 2
    for ip in ips:
        assert urllib.request.urlopen(f"http://{ip}:8000/README.md").status == 200
    assert (node.kubelet.log("default", "one") or "").startswith("serving")


def test_a_container_that_ends_is_started_again_ever_later_and_its_last_words_are_kept(node: Node) -> None:
    pod = node.run("short", "python", "-c", "print('no weights'); raise SystemExit(3)")
    eventually(lambda: node.state(pod).get("restartCount", 0) >= 2)
    container = node.state(pod)
    assert container["lastState"]["terminated"]["exitCode"] == 3
    assert "no weights" in container["lastState"]["terminated"]["message"]
    eventually(lambda: node.state(pod)["state"].get("waiting", {}).get("reason") == "CrashLoopBackOff")


def test_an_init_container_comes_first_and_what_it_leaves_on_a_volume_is_found(node: Node) -> None:
    mount = {"volumeMounts": [{"name": "models", "mountPath": "/models"}]}
    write = "import pathlib, sys; pathlib.Path(sys.argv[1], 'weights').write_text('7')"
    read = (
        f"import pathlib, sys; print(pathlib.Path(sys.argv[1], 'weights').read_text(), flush=True); {STAYS}"
    )
    pod = node.run(
        "reader",
        "python",
        "-c",
        read,
        "/models",
        container=mount,
        volumes=[{"name": "models", "hostPath": {"path": "/var/models"}}],
        initContainers=[
            {
                "name": "fetch",
                "image": "registry.example/fetch:1",
                "command": ["python", "-c", write, "/models"],
                **mount,
            }
        ],
    )
    eventually(lambda: node.is_ready(pod))
    eventually(lambda: node.kubelet.log("default", "reader") == "7\n")
    assert node.status(pod)["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 0


def test_a_deleted_pod_is_asked_to_end_and_is_gone_when_it_has(node: Node) -> None:
    ends = f"import signal, sys; signal.signal(15, lambda *_: sys.exit(0)); print('up', flush=True); {STAYS}"
    pod = node.run("ending", "python", "-c", ends, terminationGracePeriodSeconds=30)
    eventually(lambda: (node.kubelet.tick(), node.kubelet.log("default", "ending"))[1] == "up\n")
    node.client.delete(pod)

    def is_gone() -> bool:
        node.kubelet.tick()
        try:
            node.client.get(pod)
        except NotFound:
            return True
        return False

    eventually(is_gone)


def test_the_environment_is_as_kubernetes_makes_it(node: Node) -> None:
    say = f"import os, sys; print(sys.argv[1:], os.environ['SECRET'], flush=True); {STAYS}"
    node.client.create(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "store", "namespace": "default"},
            "data": {"token": base64.b64encode(b"t0ken").decode()},
        }
    )
    env = [
        {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "store", "key": "token"}}},
    ]
    node.run("says", "python", "-c", say, "$(POD_NAME)", "$$(POD_NAME)", "$(NOBODY)", container={"env": env})
    eventually(lambda: (node.kubelet.tick(), node.kubelet.log("default", "says"))[1])
    assert node.kubelet.log("default", "says") == "['says', '$(POD_NAME)', '$(NOBODY)'] t0ken\n"


def test_an_image_that_is_not_there_is_said_so(node: Node) -> None:
    pod = node.run("absent", sys.executable, container={"image": "registry.invalid/none:1"})
    assert node.state(pod)["state"]["waiting"]["reason"] == "ImagePullBackOff"


def test_what_happens_to_a_container_is_told_in_events(node: Node) -> None:
    pod = node.run("short", "python", "-c", "raise SystemExit(3)")
    eventually(lambda: node.state(pod).get("restartCount", 0) >= 1)
    node.kubelet.tick()
    found = node.client.list(EVENTS, namespace="default", fields="involvedObject.name=short").items
    assert [one["reason"] for one in found][:4] == ["Pulled", "Created", "Started", "BackOff"]


def test_a_machine_that_is_cut_off_says_nothing_while_its_pods_go_on(node: Node) -> None:
    pod = node.run("stays", "python", "-c", STAYS)
    eventually(lambda: node.is_ready(pod))
    node.is_cut_off = True
    node.client.delete(pod)
    node.kubelet.tick()
    assert "deletionTimestamp" in node.client.get(pod)["metadata"]
    node.is_cut_off = False
    eventually(lambda: (node.kubelet.tick(), not node.client.list(PODS, namespace="default").items)[1])


def test_a_container_that_need_not_run_for_ever_ends_its_pod(node: Node) -> None:
    good = node.run("good", sys.executable, "-c", "", restartPolicy="OnFailure")
    bad = node.run("bad", sys.executable, "-c", "raise SystemExit(3)", restartPolicy="Never")
    eventually(lambda: node.status(good).get("phase") == "Succeeded")
    eventually(lambda: node.status(bad).get("phase") == "Failed")
    assert node.state(bad)["state"]["terminated"]["exitCode"] == 3
    assert node.state(bad)["restartCount"] == 0


def test_the_environment_comes_from_maps_and_secrets_and_waits_for_those_that_are_missing(node: Node) -> None:
    prints = "import os, sys; sys.stdout.write(' '.join(os.environ[x] for x in ('A', 'B', 'HERE', 'BIND')))"
    sources = [{"configMapRef": {"name": "settings"}}, {"secretRef": {"name": "keys"}}]
    pod = node.run(
        "told",
        sys.executable,
        "-c",
        prints,
        restartPolicy="Never",
        container={"envFrom": sources, "volumeMounts": [{"name": "home", "mountPath": "/home/it"}]},
        volumes=[{"name": "home", "emptyDir": {}}],
    )
    data = {"A": "map", "HERE": "/home/it", "BIND": "0.0.0.0"}
    metadata = {"name": "settings", "namespace": "default"}
    node.client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    eventually(
        lambda: node.state(pod).get("state", {}).get("waiting", {}).get("reason") != "ContainerCreating"
    )
    assert node.state(pod)["state"]["waiting"] == {
        "reason": "CreateContainerConfigError",
        "message": 'secret "keys" not found',
    }
    secret = {"B": base64.b64encode(b"secret").decode()}
    metadata = {"name": "keys", "namespace": "default"}
    node.client.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": secret})
    eventually(lambda: node.status(pod).get("phase") == "Succeeded")
    told = (node.kubelet.log("default", "told") or "").split()
    assert told[:2] == ["map", "secret"]
    assert Path(told[2]).is_dir()
    assert told[3] == node.status(pod)["podIP"]


def test_an_image_without_a_command_runs_what_it_is_known_to_run(node: Node) -> None:
    node.kubelet = Kubelet(
        node.client,
        "box",
        node.kubelet._root,
        addresses,
        PROJECT,
        events=node.server.events,
        is_cut_off=lambda: False,
        entrypoints={"registry.example/tool": ("python", "-m", "json.tool")},
    )
    container = {"image": "registry.example/tool:1", "args": ["--help"], "command": []}
    pod = node.run("tool", restartPolicy="Never", container=container)
    eventually(lambda: node.status(pod).get("phase") == "Succeeded")
    assert "usage" in (node.kubelet.log("default", "tool") or "")


def test_a_container_is_told_to_end_only_after_its_pre_stop(node: Node) -> None:
    sleeps = {"lifecycle": {"preStop": {"sleep": {"seconds": 2}}}}
    pod = node.run("slow", "python", "-c", STAYS, container=sleeps, terminationGracePeriodSeconds=30)
    eventually(lambda: node.is_ready(pod))
    began = time.monotonic()
    node.client.delete(pod)

    def is_gone() -> bool:
        try:
            node.status(pod)
        except NotFound:
            return True
        return False

    eventually(is_gone)
    assert time.monotonic() - began >= 2
