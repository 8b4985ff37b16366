"""docs/KUBERNETES.md, from `deploy/` to a promoted canary, on the fake cluster: pods run the real roles."""

import base64
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from controlplane.environment import PROJECT
from kube.errors import KubeError
from kube.kubeconfig import access_of
from kube.real.transport import RealTransport, connect
from kube.resources import DEPLOYMENTS, JOBS, PODS, Ref
from kube.transport import ApiCall
from slipway.client import Client, at
from slipway.exits import Exit
from tests.deploy.kustomize import Document, path_of, render
from tests.e2e.conftest import SWIFT, Traffic, write_version
from tests.marked import MARK, living
from tests.ports import PortBlock
from tests.production.site import Site, eventually

pytestmark = [pytest.mark.process, pytest.mark.any_database, pytest.mark.slow, pytest.mark.timeout(1_200)]

SYSTEM, WORKERS = "slipway-system", "slipway"
ROLES = ("slipway-web", "slipway-worker", "slipway-sweeper")
IMAGE = "registry.example.org/slipway/control-plane"


class PortForward(threading.Thread):
    """`kubectl port-forward`: connections of a port here go to one of the Service's pods."""

    def __init__(self, port: int, pods: "Installed") -> None:
        super().__init__(daemon=True)
        self._pods = pods
        self._listener = socket.create_server(("127.0.0.1", port))
        self.start()

    def run(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._forward, args=(client,), daemon=True).start()

    def _forward(self, client: socket.socket) -> None:
        try:
            pod = socket.create_connection((self._pods.address("slipway-web"), 8000), timeout=10)
        except (OSError, LookupError):
            client.close()  # nobody is there at the moment
            return
        back = threading.Thread(target=_copy, args=(pod, client), daemon=True)
        back.start()
        _copy(client, pod)
        back.join()
        client.close()
        pod.close()

    def close(self) -> None:
        self._listener.close()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        source.settimeout(None)
        while data := source.recv(65_536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


class Installed:
    """A cluster with GPUs and a Gateway, and what a person does there with kubectl."""

    def __init__(self, place: Path, site: Site) -> None:
        self.ports = PortBlock()
        self.console = f"http://localhost:{self.ports[2]}"
        self.gateway = f"http://127.0.0.1:{self.ports[0]}"
        self._place, self._site = place, site
        ours = ("SLIPWAY_", "DJANGO_")
        environ = {key: one for key, one in os.environ.items() if not key.startswith(ours)} | {
            MARK: site.mark
        }
        ports = str(self.ports[0]), str(self.ports[1])
        size = ("--machines", "1", "--cpus", "16", "--gpus", "8", "--namespace", WORKERS)
        entry = ("--entrypoint", IMAGE, "controlplane.server")
        self._processes = [
            subprocess.Popen([sys.executable, "-m", module, str(place), *options], cwd=PROJECT, env=environ)
            for module, options in (
                ("kube.fake", (*size, *entry, "--gateway", *ports)),
                ("kube.fake.gateway", ("--port", ports[0], "--admin-port", ports[1])),
            )
        ]
        self.kubeconfig = place / "kubeconfig"
        eventually(lambda: self.kubeconfig.exists() and self.kubeconfig.read_text())
        access = access_of(self.kubeconfig.read_text())
        self.client, self.transport = connect(access), RealTransport(access)
        self.forward = PortForward(self.ports[2], self)

    def documents(self) -> list[Document]:
        """Return the objects of the overlay `small`, with the addresses of a copy."""
        found = render(PROJECT / "deploy/overlays/small")
        (settings,) = (one for one in found if one["kind"] == "ConfigMap")
        settings["data"] |= {
            "SLIPWAY_PUBLIC_URL": self.console,
            # The cluster's own API server is a process of this machine.
            "SLIPWAY_CLUSTER_ALLOWED_NETWORKS": "127.0.0.0/8",
        }
        return found

    def apply(self, *, step: str = "") -> None:
        for document in self.documents():
            if not step or document["metadata"].get("labels", {}).get("slipway.io/step") == step:
                query = {"fieldManager": "kubectl", "fieldValidation": "Strict"}
                headers = {"content-type": "application/apply-patch+yaml"}
                path = f"{path_of(document)}/{document['metadata']['name']}"
                reply = self.transport.send(
                    ApiCall("PATCH", path, query, headers, json.dumps(document).encode())
                )
                assert reply.status in (200, 201), reply.body

    def create_secret(self) -> None:
        settings = self._site.settings
        data = {
            name: base64.b64encode(settings[name].encode()).decode()
            for name in (
                "SLIPWAY_DATABASE_URL",
                "SLIPWAY_REDIS_URL",
                "SLIPWAY_SECRET_KEY",
                "SLIPWAY_AUDIT_KEY",
            )
        }
        metadata = {"name": "slipway", "namespace": SYSTEM}
        self.client.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})

    def pods(self, name: str) -> list[Document]:
        found = self.client.list(PODS, namespace=SYSTEM, labels=f"app.kubernetes.io/name={name}").items
        return [one for one in found if not one["metadata"].get("deletionTimestamp")]

    def address(self, name: str) -> str:
        """Return the address of a ready pod. Raises LookupError."""
        found = [str(one["status"]["podIP"]) for one in self.pods(name) if _is_ready(one)]
        if not found:
            raise LookupError(name)
        return found[0]

    def states(self) -> dict[str, str]:
        """Why containers wait, by pod."""
        return {
            one["metadata"]["name"]: str(status["state"])
            for name in (*ROLES, "slipway-prepare")
            for one in self.pods(name)
            for key in ("initContainerStatuses", "containerStatuses")
            for status in (one.get("status") or {}).get(key) or ()
        }

    def is_rolled_out(self) -> bool:
        for name in ROLES:
            seen = self.client.get(Ref(DEPLOYMENTS, name, SYSTEM))
            status = seen.get("status") or {}
            if status.get("observedGeneration") != seen["metadata"]["generation"]:
                return False
            if not status.get("readyReplicas") == status.get("updatedReplicas") == seen["spec"]["replicas"]:
                return False
        return True

    def execute(self, role: str, *arguments: str) -> Path:
        """A command in the container of that role; the home that it has there."""
        (found,) = (
            one
            for one in living(self._site.mark)
            if one.cmdline()[1:4] == ["-m", "controlplane.server", role]
            and psutil.Process(one.ppid()).cmdline()[1:3] == ["-m", "kube.fake"]
        )
        environ = found.environ()
        done = subprocess.run(
            [sys.executable, "-m", "controlplane.server", *arguments],
            cwd=PROJECT,
            env=environ,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return Path(environ["SLIPWAY_HOME"])

    def slipway(self, token: str, command: str, *more: str, status: int = 0, **answers: str) -> str:
        """The command of the page that begins so, with `more` words and an answer for what is of this world
        alone, as somebody types it who follows the page."""
        (words,) = [one for one in page_commands() if " ".join(one).startswith(f"slipway {command}")]
        told = {word.replace("-", "_").replace(".", "_"): word for word in words}
        typed = [*words, *more]
        for name, answer in answers.items():
            typed = [answer if word == told[name] else word for word in typed]
        environ = os.environ | {"SLIPWAY_URL": self.console, "SLIPWAY_TOKEN": token, "SLIPWAY_TOKEN_FILE": ""}
        done = subprocess.run(
            [sys.executable, "-m", "slipway.cli", "--output", "json", *typed[1:]],
            cwd=PROJECT,
            env=environ,
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
        assert done.returncode == status, (typed, done.stdout, done.stderr, self.states())
        return done.stdout

    def close(self) -> None:
        self.forward.close()
        for process in self._processes:
            process.terminate()
            process.wait(60)


def page_commands() -> list[list[str]]:
    """Return the client's commands in docs/KUBERNETES.md, split into words."""
    page = (PROJECT / "docs/KUBERNETES.md").read_text()
    blocks = re.findall(r"^ *```sh\n(.*?)^ *```$", page, re.MULTILINE | re.DOTALL)
    lines = re.sub(r"\\\n", " ", "\n".join(blocks)).splitlines()
    return [shlex.split(line) for line in lines if line.strip().startswith("slipway ") and "|" not in line]


def _is_ready(pod: Document) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


@pytest.fixture
def installed() -> Iterator[Installed]:
    # A short path: homes of pods hold unix sockets, whose paths may have 107 bytes.
    with tempfile.TemporaryDirectory(prefix="s") as directory:
        site = Site(Path(directory) / "site", SLIPWAY_DATABASE_CONNECTIONS="12")
        with closing(site):
            made = Installed(Path(directory), site)
            with closing(made):
                yield made


def test_from_nothing_to_a_promoted_canary(installed: Installed, tmp_path: Path) -> None:
    cluster = installed.client
    cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}})

    # All at once and without the Secret: pods wait, and say for what.
    installed.apply()
    eventually(lambda: any('secret "slipway" not found' in one for one in installed.states().values()))
    installed.create_secret()
    job = Ref(JOBS, "slipway-prepare", SYSTEM)

    def is_complete() -> bool:
        conditions = (cluster.get(job).get("status") or {}).get("conditions") or ()
        return any(one["type"] == "Complete" and one["status"] == "True" for one in conditions)

    eventually(is_complete, seconds=180)
    eventually(installed.is_rolled_out, seconds=240)

    home = installed.execute("web", "manage", "bootstrap_admin")
    token = (home / "admin-token").read_text().strip()
    client = Client(installed.console, token, timeout=60)

    installed.slipway(
        token,
        "cluster add",
        prod="fake",  # and its context
        slipway_yaml=str(installed.kubeconfig),
        ml=WORKERS,
        vision="default",
        **{"store_url=https://slipway_example_org": f"store_url={installed.console}"},
    )
    gateway = {"gateway": "models", "gateway_namespace": "gateways", "namespace": WORKERS}
    body = {"kind": "gateway_api", "metrics": "workers", "settings": gateway, "public_url": installed.gateway}
    client.put(at("clusters", "fake", "gateway"), body)
    image = {"registry_example_org/slipway/worker@$(cat worker_digest)": f"example/worker@sha256:{'1' * 64}"}
    installed.slipway(token, "images add", transformers="echo", **image, **{"5_23_0": "1"})
    client.create(at("plans"), {"name": "swift", "body": SWIFT})
    first, second = (
        write_version(tmp_path / name, seed=seed) for seed, name in ((1, "chat-1"), (2, "chat-2"))
    )
    installed.slipway(token, "models push chat-1", chat_1=str(first))
    installed.slipway(token, "service create chat chat:v1", "--engine", "echo", west="fake", canary="swift")
    eventually(lambda: client.get(at("services", "chat"))["stable"] == "chat:v1", seconds=240)

    client.create(at("people"), {"username": "ci", "team": "default", "role": "developer"})
    scopes = ["read", "releases.start", "releases.operate", "models.write"]
    made: Any = client.post(at("tokens"), {"name": "ci", "owner": "ci", "scopes": scopes})
    traffic = Traffic(f"{installed.gateway}/chat", model="chat")
    traffic.start()
    try:
        installed.slipway(token, "models push chat-2", chat_2=str(second))
        told = installed.slipway(str(made["token"]), "release start", "--yes", status=Exit.WAITING_APPROVAL)
        release = str(json.loads(told)["id"])
        # A web's pod is deleted while the release waits: the next one has another home, and goes on.
        (web,) = installed.pods("slipway-web")
        cluster.delete(Ref(PODS, web["metadata"]["name"], SYSTEM))
        former = web["metadata"]["name"]

        def is_replaced() -> bool:
            return all(
                _is_ready(one) and one["metadata"]["name"] != former for one in installed.pods("slipway-web")
            )

        eventually(lambda: installed.pods("slipway-web") and is_replaced(), seconds=240)
        installed.slipway(token, "release approve", "--yes", NUMBER=release)
        traffic.latest.clear()
        eventually(lambda: set(traffic.latest) == {"chat:v2"})
    finally:
        traffic.stop()
    assert traffic.failures == []

    # The upgrade of the page: the Job is deleted and applied anew, and nothing else changes.
    cluster.delete(job)

    def is_gone() -> bool:
        with suppress(KubeError):
            cluster.get(job)
            return False
        return True

    eventually(is_gone)
    installed.apply(step="prepare")
    eventually(is_complete, seconds=180)
    before = {one["metadata"]["name"] for role in ROLES for one in installed.pods(role)}
    installed.apply()
    eventually(installed.is_rolled_out)
    assert {one["metadata"]["name"] for role in ROLES for one in installed.pods(role)} == before
