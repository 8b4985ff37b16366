"""`python -m kube.fake DIRECTORY`: a cluster for other processes, whose pods are processes of this computer.

It writes DIRECTORY/kubeconfig when it answers, and forgets everything but its token when it ends. Its pods
have addresses of 127.64.0.0/10 (Linux), in a block by its process's number: several such clusters stand
beside each other.
A machine with the annotation `fake.slipway.io/behaviour: silent` is not heard of while it has it.
"""

import argparse
import itertools
import json
import os
import secrets
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread
from typing import Any

from kube.client import KubeClient
from kube.fake.cluster import SimulatedCluster
from kube.fake.controllers.machines import is_silent
from kube.fake.extensions import EXTENSIONS
from kube.fake.gateway.__main__ import FILES
from kube.fake.gateway.controller import GatewayController
from kube.fake.gateway_api import gateway_api
from kube.fake.http_server import FakeHttpServer
from kube.fake.kinds import BUILT_IN, ObjectKind
from kube.fake.kubelet import Kubelet
from kube.fake.machine import node, uid_of
from kube.fake.storage import ObjectKey
from kube.fake.transport import FakeTransport
from kube.fake.wire import ADMIN

TICK_SECONDS = 0.25
PROJECT = Path(__file__).resolve().parents[2]


class NoKubelets:
    """Replaces the kubelets that only pretend."""

    def step(self, hands: object) -> None:
        pass

    def is_silent(self, node: dict[str, Any]) -> bool:
        return is_silent(node)


class Logs(Mapping[tuple[str, ...], str]):
    """Logs of pods by namespace, name and container, as their machine has them."""

    def __init__(self, kubelets: list[Kubelet]) -> None:
        self._kubelets = kubelets

    def __getitem__(self, pod: tuple[str, ...]) -> str:
        for kubelet in self._kubelets:
            if (text := kubelet.log(*pod)) is not None:
                return text
        raise KeyError(pod)

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        return iter(())

    def __len__(self) -> int:
        return 0


def kubeconfig(url: str, token: str) -> str:
    """JSON, which is YAML."""
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "fake",
            "clusters": [{"name": "fake", "cluster": {"server": url}}],
            "users": [{"name": "fake", "user": {"token": token}}],
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake"}}],
        },
        indent=2,
    )


def token_of(file: Path) -> str:
    """The one of a former life, which others have stored; a new one where there was none."""
    try:
        return str(json.loads(file.read_text())["users"][0]["user"]["token"])
    except (OSError, ValueError, LookupError, TypeError):
        return secrets.token_urlsafe(24)


def run(
    directory: Path,
    *,
    port: int,
    nodes: list[dict[str, Any]],
    stop: Event,
    kinds: Sequence[ObjectKind] = BUILT_IN,
    namespaces: Sequence[str] = (),
    gateway: tuple[int, int] | None = None,
    entrypoints: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """`gateway`: ports of the Envoy that `python -m kube.fake.gateway` runs; None: there is no Gateway."""
    block = 64 + os.getpid() % 128
    addresses = (f"127.{block}.{number // 250}.{number % 250 + 1}" for number in itertools.count())
    kinds = (*kinds, *(gateway_api() if gateway else ()))
    cluster = SimulatedCluster(nodes=nodes, kinds=kinds, start=datetime.now(UTC))
    client = KubeClient(FakeTransport(cluster))
    kubelets = [
        _kubelet(cluster, client, one["metadata"]["name"], directory, addresses, entrypoints) for one in nodes
    ]
    cluster.kubelets = NoKubelets()  # type: ignore[assignment]
    cluster.logs = Logs(kubelets)  # type: ignore[assignment]
    for name in namespaces:
        client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    controller = None
    if gateway:
        port_of_clients, admin_port = gateway
        controller = GatewayController(
            client, directory.absolute() / FILES, port=port_of_clients, admin_port=admin_port
        )
        controller.furnish()
    token = token_of(directory / "kubeconfig")
    server = FakeHttpServer(cluster, tokens={token: ADMIN}, port=port)
    file = directory / "kubeconfig"
    file.touch(mode=0o600)
    file.write_text(kubeconfig(server.url, token))
    words = f"A fake cluster with {len(nodes)} machines answers at {server.url}; kubeconfig: {file}"
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()
    threads = [Thread(target=_run_machines, args=(kubelets, stop), daemon=True)]
    if controller:
        threads.append(Thread(target=_run_gateway, args=(controller, stop), daemon=True))
    for thread in threads:
        thread.start()
    before = time.monotonic()
    while not stop.wait(TICK_SECONDS):
        now = time.monotonic()
        cluster.advance(now - before)
        before = now
    for thread in threads:
        thread.join(10)
    for kubelet in kubelets:
        kubelet.stop()
    server.close()


def _kubelet(
    cluster: SimulatedCluster,
    client: KubeClient,
    name: str,
    directory: Path,
    addresses: Iterator[str],
    entrypoints: Mapping[str, Sequence[str]] | None,
) -> Kubelet:
    def is_cut_off() -> bool:
        found = cluster.storage.peek(ObjectKey("nodes", "", name))
        return found is None or is_silent(found)

    return Kubelet(
        client,
        name,
        directory / name,
        addresses,
        PROJECT,
        events=cluster.events,
        is_cut_off=is_cut_off,
        entrypoints=entrypoints,
    )


def _run_machines(kubelets: list[Kubelet], stop: Event) -> None:
    while not stop.wait(TICK_SECONDS):
        for kubelet in kubelets:
            kubelet.tick()


def _run_gateway(controller: GatewayController, stop: Event) -> None:
    while not stop.wait(TICK_SECONDS):
        try:
            controller.tick()
        except Exception:
            # One bad look must not be the last one.
            traceback.print_exc()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m kube.fake", description=__doc__)
    parser.add_argument(
        "directory", type=Path, help="what its machines' disks are, and where kubeconfig goes"
    )
    parser.add_argument("--port", type=int, default=0, help="of the API; 0 takes a free one")
    parser.add_argument("--machines", type=int, default=2)
    parser.add_argument("--cpus", type=int, default=16, help="of each machine")
    parser.add_argument("--gib", type=int, default=64, help="memory of each machine")
    parser.add_argument("--gpus", type=int, default=0, help="of each machine; they only count")
    parser.add_argument("--extensions", action="store_true", help="with LeaderWorkerSet")
    parser.add_argument("--namespace", action="append", default=[], help="to begin with; repeatable")
    parser.add_argument(
        "--entrypoint",
        nargs=2,
        action="append",
        default=[],
        metavar=("IMAGE", "MODULE"),
        help="what an image runs by itself, by the beginning of its name; repeatable",
    )
    parser.add_argument(
        "--gateway",
        type=int,
        nargs=2,
        metavar=("PORT", "ADMIN_PORT"),
        help="have a Gateway; `python -m kube.fake.gateway` with the same ports is its data plane",
    )
    given = parser.parse_args()
    given.directory.mkdir(parents=True, exist_ok=True)
    stop = Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: stop.set())
    nodes = [
        node(
            f"fake-{number}",
            uid=uid_of(given.directory / f"fake-{number}"),
            cpus=given.cpus,
            gib=given.gib,
            gpus=given.gpus,
        )
        for number in range(given.machines)
    ]
    run(
        given.directory,
        port=given.port,
        nodes=nodes,
        stop=stop,
        kinds=(*BUILT_IN, *EXTENSIONS) if given.extensions else BUILT_IN,
        namespaces=given.namespace,
        gateway=tuple(given.gateway) if given.gateway else None,
        entrypoints={image: ("python", "-m", module) for image, module in given.entrypoint},
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
