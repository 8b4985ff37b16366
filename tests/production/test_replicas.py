"""Two of each role, as pods of a cluster are: a home of its own each, one database, one Redis, one store."""

import signal
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest
import redis

from controlplane.environment import PROJECT
from kube.errors import KubeError
from kube.kubeconfig import access_of
from kube.real.transport import connect
from kube.resources import CONFIG_MAPS, DEPLOYMENTS, DISRUPTION_BUDGETS, HTTP_ROUTES, PODS, SERVICES
from slipway.client import Client, Document, ServerUnreachable, at
from tests.e2e.conftest import SWIFT, Traffic, write_version
from tests.ports import PortBlock
from tests.prepared import prepare_static
from tests.production.site import Host, Role, Site, eventually, free_port

pytestmark = [pytest.mark.process, pytest.mark.any_database, pytest.mark.slow, pytest.mark.timeout(900)]

MODEL, SERVICE, NAMESPACE = "parrot", "talk", "slipway"
MADE = (DEPLOYMENTS, SERVICES, DISRUPTION_BUDGETS, CONFIG_MAPS, HTTP_ROUTES, PODS)
LONGER = [
    step | {"seconds": 12}
    if step["kind"] == "hold"
    else step | {"at_most_seconds": 8}
    if step["kind"] == "judge"
    else step
    for step in SWIFT["steps"]
]


class Cluster:
    """A fake one with a Gateway. `born`: the uids of each object that was ever seen in the namespace."""

    def __init__(self, place: Path, store: Path) -> None:
        (place / "claims").mkdir(parents=True)
        (place / "claims" / "slipway-models").symlink_to(store)
        self._block = PortBlock()
        ports = str(self._block[0]), str(self._block[1])
        self.url = f"http://127.0.0.1:{ports[0]}"
        size = ("--machines", "2", "--cpus", "8", "--namespace", NAMESPACE)
        envoy = ("--port", ports[0], "--admin-port", ports[1])
        self._processes = [
            subprocess.Popen([sys.executable, "-m", module, str(place), *options], cwd=PROJECT)
            for module, options in (
                ("kube.fake", (*size, "--gateway", *ports)),
                ("kube.fake.gateway", envoy),
            )
        ]
        file = place / "kubeconfig"
        eventually(lambda: file.exists() and file.read_text())
        self.kubeconfig = file.read_text()
        self._client = connect(access_of(self.kubeconfig))
        self._client.create(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": "slipway-models", "namespace": NAMESPACE},
                "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
            }
        )
        self.born: dict[tuple[str, str], set[str]] = defaultdict(set)
        self._stop = threading.Event()
        self._looks = threading.Thread(target=self._look, daemon=True)
        self._looks.start()

    def _look(self) -> None:
        while not self._stop.wait(0.2):
            for resource in MADE:
                try:
                    found = self._client.list(resource, namespace=NAMESPACE).items
                except KubeError:
                    continue
                for one in found:
                    self.born[resource.plural, one["metadata"]["name"]].add(one["metadata"]["uid"])

    def pods(self) -> list[str]:
        return [name for plural, name in self.born if plural == PODS.plural]

    def close(self) -> None:
        self._stop.set()
        self._looks.join(30)
        for process in self._processes:
            process.terminate()
            process.wait(30)


class Pod:
    """A process of a role, in a home of its own; a kill takes all of it, as that of a container does."""

    def __init__(self, site: Site, name: str, role: str, *options: str) -> None:
        self.host: Host = site.host(name)
        if role == "web":
            prepare_static(self.host.home)
            self.role: Role = self.host.web()
        else:
            self.health_port = free_port()
            self.role = self.host.start(role, *options, "--health-port", str(self.health_port))

    def is_ready(self) -> bool:
        assert self.role.process.poll() is None, self.role.log
        try:
            return httpx2.get(f"http://127.0.0.1:{self.health_port}/readyz", timeout=10).status_code == 200
        except httpx2.TransportError:
            return False

    def kill(self) -> None:
        everybody = [psutil.Process(self.role.process.pid)]
        everybody += everybody[0].children(recursive=True)
        for process in everybody:
            process.kill()
        self.role.process.wait(30)


class Installation:
    def __init__(self, site: Site) -> None:
        self.site = site
        job = site.host("job")
        done = job.run("prepare", "--only", "database")
        assert done.returncode == 0, done.stderr
        self.webs = [Pod(site, f"web-{name}", "web") for name in "ab"]
        self.workers = [Pod(site, f"worker-{name}", "worker", "--processes", "1") for name in "ab"]
        self.sweepers = [Pod(site, f"sweeper-{name}", "sweeper") for name in "ab"]
        admin = self.webs[0].host
        made = admin.run("manage", "bootstrap_admin")
        assert made.returncode == 0, made.stderr
        self.token = admin.token

    def client(self, web: int) -> Client:
        return Client(self.webs[web].host.url, self.token, timeout=60)

    def watching_sweeper(self) -> Pod:
        """The one that hears the cluster."""
        with redis.Redis.from_url(self.site.settings["SLIPWAY_REDIS_URL"]) as shared:

            def owner() -> str:
                (key,) = shared.keys("slipway:watching:*") or [b""]
                return (shared.get(key) or b"").decode() if key else ""

            pid = int(eventually(owner).rpartition(":")[2])
        found = (
            one
            for one in self.sweepers
            if pid
            in (
                one.role.process.pid,
                *(child.pid for child in psutil.Process(one.role.process.pid).children(True)),
            )
        )
        return next(found)


@pytest.fixture
def installation(tmp_path: Path) -> Iterator[Installation]:
    store = tmp_path / "models"
    store.mkdir()
    site = Site(
        tmp_path,
        SLIPWAY_STORE=str(store),
        SLIPWAY_IMPORT_ROOTS=str(tmp_path / "imports"),
        SLIPWAY_DATABASE_CONNECTIONS="12",
        # Where the fake cluster listens.
        SLIPWAY_CLUSTER_ALLOWED_NETWORKS="127.0.0.0/8",
    )
    try:
        yield Installation(site)
    finally:
        site.close()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path / "cluster", tmp_path / "models")
    try:
        yield made
    finally:
        made.close()


def add_cluster(client: Client, cluster: Cluster) -> None:
    settings = {"namespace": NAMESPACE, "model_files": "claim"}
    wish = {"name": "west", "settings": settings, "secrets": {"kubeconfig": cluster.kubeconfig}}
    client.create(at("clusters"), wish)

    def checked() -> bool:
        seen = client.get(at("clusters", "west"))
        assert seen["state"] != "not_ready", seen["checks"]
        return seen["state"] in ("ready", "warning")

    eventually(checked)
    gateway = {"gateway": "models", "gateway_namespace": "gateways", "namespace": NAMESPACE}
    body = {"kind": "gateway_api", "metrics": "workers", "settings": gateway, "public_url": cluster.url}
    client.put(at("clusters", "west", "gateway"), body)


def token_of_a_developer(admin: Client) -> str:
    """Who asks for a release does not approve it."""
    admin.create(at("people"), {"username": "ci", "team": "default", "role": "developer"})
    scopes = ["read", "releases.start", "releases.operate"]
    return str(admin.post(at("tokens"), {"name": "ci", "owner": "ci", "scopes": scopes})["token"])


def add_service(client: Client, imports: Path) -> None:
    client.create(at("models"), {"name": MODEL, "task": "text-generation"})
    for number, name in ((1, "v1"), (2, "v2")):
        source = write_version(imports / name, seed=number)
        client.create(at("models", MODEL, "versions"), {"source": str(source), "version": name})
        address = at("models", MODEL, "versions", name)
        eventually(lambda address=address: client.get(address)["state"] == "ready")
    client.create(at("plans"), {"name": "longer", "body": SWIFT | {"steps": LONGER}})
    image = {
        "name": "echo",
        "engine": "echo",
        "engine_version": "1",
        "runs_on_cpu": True,
        "formats": ["safetensors"],
    }
    client.create(at("images"), image | {"reference": f"registry.example.org/worker@sha256:{'0' * 64}"})
    service = {
        "name": SERVICE,
        "model": MODEL,
        "version": "v1",
        "cluster": "west",
        "engine": "echo",
        "replicas": 2,
    }
    needs = {"plan": "longer", "device": "cpu", "resources": {"gpus_per_worker": 0}}
    release = client.create(at("services"), service | needs)["release_in_motion"]
    reaches(client, release, "promoted")


def reaches(client: Client, release: int, *states: str) -> Document:
    def there() -> Any:
        try:
            seen = client.get(at("releases", release))
        except ServerUnreachable:
            return None
        assert seen["state"] not in {"failed", "stuck", "rolled_back"} - set(states), seen
        return seen if seen["state"] in states else None

    found: Document = eventually(there, seconds=300)
    return found


def stands_at(client: Client, release: int, kind: str) -> None:
    """Until a step of that kind is under way."""

    def there() -> bool:
        seen = client.get(at("releases", release))
        assert seen["state"] in ("pending", "running"), seen
        return any(one["kind"] == kind and one["state"] == "running" for one in seen["steps"])

    eventually(there, seconds=120)


def test_a_canary_goes_on_while_one_of_each_role_is_killed(
    installation: Installation, cluster: Cluster, tmp_path: Path
) -> None:
    one, other = installation.client(0), installation.client(1)
    eventually(lambda: all(pod.is_ready() for pod in (*installation.workers, *installation.sweepers)))
    add_cluster(one, cluster)
    add_service(one, tmp_path / "imports")
    traffic = Traffic(f"{cluster.url}/{SERVICE}")
    traffic.start()
    try:
        eventually(lambda: traffic.answers.total() > 20)
        developer = Client(installation.webs[0].host.url, token_of_a_developer(one))
        release = developer.create(at("releases"), {"service": SERVICE, "version": "v2", "reason": "better"})[
            "id"
        ]
        stands_at(other, release, "deploy")
        installation.watching_sweeper().kill()
        stands_at(other, release, "hold")
        installation.workers[0].kill()
        installation.webs[0].kill()
        reaches(other, release, "waiting_approval")
        other.post(at("releases", release, "approve"), {"reason": "as it should be"})
        reaches(other, release, "promoted")
        traffic.latest.clear()
        eventually(lambda: set(traffic.latest) == {f"{MODEL}:v2"})
    finally:
        traffic.stop()

    assert traffic.failures == []
    assert traffic.answers.keys() == {f"{MODEL}:v1", f"{MODEL}:v2"}
    assert {name: uids for name, uids in cluster.born.items() if len(uids) > 1} == {}
    assert len(cluster.pods()) == 4
    assert sorted(name for kind, name in cluster.born if kind == "deployments") == [
        "talk-r1",
        f"talk-r{release}",
    ]
    assert [name for kind, name in cluster.born if kind == "httproutes"] == ["slipway-talk"]
    history = other.get(at("releases", release))
    assert [step["state"] for step in history["steps"]] == ["done"] * len(LONGER)

    # What a ReplicaSet puts in their place has another home; nobody misses the homes that are gone.
    installation.webs[0] = Pod(installation.site, "web-c", "web")
    late = [
        Pod(installation.site, "worker-c", "worker", "--processes", "1"),
        Pod(installation.site, "sweeper-c", "sweeper"),
    ]
    eventually(lambda: all(pod.is_ready() for pod in late))
    headers = {"Authorization": f"Bearer {installation.token}"}

    def healthy() -> bool:
        told = httpx2.get(f"{installation.webs[0].host.url}/readyz", headers=headers, timeout=60).json()
        return bool(told["ready"]) and all(
            told["parts"][name]["ok"] for name in ("worker", "sweeper", "hosts", "gateway")
        )

    eventually(healthy, seconds=120)
    for pod in (*late, installation.webs[0], installation.webs[1]):
        assert pod.role.stop(signal.SIGTERM) in (0, 143, -signal.SIGTERM)
