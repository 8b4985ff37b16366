"""A release on a fake Kubernetes cluster: rows, steps and backends as they are, and a world that strikes.

API server, controllers, kubelets, a Gateway and its data plane are in this process; their time is the test's.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from hashlib import sha256
from typing import Any

import pytest
from django.utils import timezone

from accounts.models import Team
from accounts.states import Role
from clusters.backends.base import ClusterConfig
from clusters.backends.kubernetes.backend import KubernetesCluster
from clusters.backends.kubernetes.settings import KubernetesSettings
from clusters.models import Cluster
from clusters.reconcilers.clusters import ClusterReconciler
from clusters.reconcilers.deployment_steps import DeploymentTools
from clusters.reconcilers.deployments import DeploymentReconciler
from common.actor import Actor
from common.reconcile import Kernel, Reconciler
from gateway.backends.fake import FakeGateway
from gateway.models import Route
from gateway.reconcilers import GatewayReconciler
from gateway.routes import WorkerEndpoint
from gateway.services.gateways import set_gateway
from gateway.states import GatewayKind, MetricsKind
from gateway.traffic import TargetCounts
from kube.base import Object
from kube.client import KubeClient
from kube.fake.chaos import Chaos
from kube.fake.cluster import SimulatedCluster, node
from kube.fake.controllers.controller_tools import ControllerTools
from kube.fake.controllers.machines import Kubelets, behaviour_of
from kube.fake.extensions import EXTENSIONS
from kube.fake.gateway_api import gateway_api
from kube.fake.kinds import BUILT_IN
from kube.fake.transport import FakeTransport
from kube.fake.wire import ADMIN, ApiRequest
from kube.transport import ApiCall
from releases.models import Service
from releases.reconcilers.release import ReleaseReconciler
from releases.services.plan import save_plan
from releases.services.pod_patch import approve_patch, propose_patch
from releases.services.service import create_service
from tests.clusters.world import version_of
from tests.crash.harness import LEASE_AND_A_BIT, Checkpoints, Clock, Crash, worker
from tests.gateway.gateway_api.worlds import CONTROLLER, FEATURES, Controller, DataPlane, their_rule
from tests.images.builders import image
from tests.kube.accounts import grant
from tests.releases.kubernetes.strikes import Strikes
from tests.releases.world import SECONDS, FakeProber, Scene

NAMESPACE, GATEWAY = "slipway", "models"
SERVICE = "chat"
REQUESTS = 6
"""That clients send in one tick."""
IN_PASSING = {"events", "events.events.k8s.io", "leases.coordination.k8s.io", "nodes"}
"""What changes by itself."""
PLAN: dict[str, Any] = {
    "steps": [
        {"kind": "prefetch"},
        {"kind": "deploy", "share_percent": 100, "ready_within_seconds": 900},
        {"kind": "smoke_test", "requests": 1, "timeout_seconds": 30},
        {"kind": "cohort", "header": "x-cohort", "value": "beta", "seconds": 1},
        {"kind": "weight", "percent": 30},
        {"kind": "judge", "at_most_seconds": 3, "on_insufficient": "ask"},
        {"kind": "approval", "timeout_seconds": 36_000},
        {"kind": "promote"},
    ],
}
PATCH = {"metadata": {"annotations": {"cost-centre": "42"}}}
_worlds: list["KubernetesScene"] = []


def connect(config: ClusterConfig) -> KubernetesCluster:
    """Connect as the kind's backend does when made from a row."""
    return _worlds[-1].connect()


class Clients(FakeGateway):
    """Whoever counts: requests go as the data plane has the routes, and pods answer, if there are any."""

    def __init__(self, scene: "KubernetesScene") -> None:
        super().__init__(clock=scene.clock)
        self._scene = scene
        self.unserved: list[str] = []
        """Where requests went that nobody answered."""
        self.is_closed = False
        """The service ends: nobody asks any more."""

    def ask(self, service: str, requests: int) -> dict[str, int]:
        sent: dict[str, int] = {}
        for _ in range(requests):
            found = self._scene.plane.ask(f"/{service}/v1/completions", {})
            target = found[0] if found else ""
            sent[target] = sent.get(target, 0) + 1
            if not self._reachable(target):
                self.unserved.append(target)
            if target:
                self._answer(service, target, is_forced=False, abandon=False)
        return sent

    def _reachable(self, target: str) -> frozenset[Any]:
        return frozenset(
            WorkerEndpoint(pod["status"]["podIP"], 8000) for pod in self._scene.ready_pods(target)
        )

    def counts(self, route: str, *, taken_after: Any = None) -> dict[str, TargetCounts]:
        names = {target for asked, target in self._tallies if asked == route}
        spec = self._scene.route_row().spec
        names |= {one.name for one in spec.targets}
        return {name: self._counts(route, name) for name in names}


class Addressed(Kubelets):
    """Their pods have addresses."""

    def _told_status(self, hands: ControllerTools, pod: Object, *args: Any, **how: Any) -> Object:
        number = int(sha256(pod["metadata"]["uid"].encode()).hexdigest()[:5], 16)
        address = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
        return super()._told_status(hands, pod, *args, **how) | {"podIP": address}


class KubernetesScene(Scene):
    """Version 1 serves on a Kubernetes cluster in whose namespace others have things of their own."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, *, is_theirs: bool = False, in_groups: bool = False
    ) -> None:
        """`is_theirs`: the rules of the service belong into an HTTPRoute of somebody else. `in_groups`: its
        workers span two machines each, and the pods have a patch of the user's."""
        self.kernel = Kernel
        self.clock = Clock(timezone.now())
        self.prober = FakeProber()
        self.is_theirs, self.in_groups = is_theirs, in_groups
        self.server = SimulatedCluster(
            nodes=[node(f"gpu-{number}", **{"nvidia.com/gpu": "8"}) for number in range(2)],
            kinds=(*BUILT_IN, *gateway_api(), *EXTENSIONS),
        )
        self.broken: set[str] = set()
        """Names of deployments whose pods cannot run."""
        self.server.kubelets = Addressed()
        self.server.kubelets.behaviour_of = self._behaviour
        self.client = KubeClient(FakeTransport(self.server, user=ADMIN), field_manager="somebody")
        self.controller = Controller(self.client)
        self.plane = DataPlane(self.controller)
        self.transport = FakeTransport(self.server, user=grant(self.server, NAMESPACE))
        self.chaos = Chaos(self.server)
        self.strikes = Strikes(self, self.chaos)
        self.transport.faults.append(self.strikes)
        self.clients = self.gateway = Clients(self)
        self.slept = 0.0
        self.live_to_the_end: Callable[[], object] = lambda: None
        self._route_was = False
        _worlds[:] = [self]
        self._join(monkeypatch)
        self._furnish()
        self.foreign = {key: self.plain(item) for key, item in self.objects().items()}
        """What others have, and as what it must stay."""
        self._set(lambda _: None)

    def _join(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super()._join(monkeypatch)
        monkeypatch.setattr("clusters.backends.configured._connected", {})
        monkeypatch.setattr("gateway.backends.configured._made", {})
        monkeypatch.setattr("gateway.backends.configured.WorkerCounters", lambda _: self.clients)
        monkeypatch.setattr("gateway.backends.gateway_api.backend.sleep", self._sleep)
        monkeypatch.setattr("gateway.backends.gateway_api.backend.monotonic", lambda: self.slept)
        monkeypatch.setattr("kube.client.sleep", self._sleep, raising=False)

    def _sleep(self, seconds: float) -> None:
        self.slept += seconds
        self.controller.tick()

    def connect(self) -> KubernetesCluster:
        settings = KubernetesSettings(store_url="https://slipway.example", model_files="node_cache")
        return KubernetesCluster(KubeClient(self.transport), settings, store_token="sesame")

    def _furnish(self) -> None:
        """Make what is there before Slipway comes, a good part of it under names like ours."""
        group = "gateway.networking.k8s.io/v1"
        for name in (NAMESPACE, "elsewhere"):
            self.server.make("namespaces", {"metadata": {"name": name}})
        features = {"supportedFeatures": [{"name": one} for one in FEATURES]}
        said = [{"type": "Programmed", "status": "True", "reason": "Programmed", "observedGeneration": 1}]
        listener = {"name": "web", "port": 80, "protocol": "HTTP"}
        self._make("gatewayclasses.gateway.networking.k8s.io", group, "GatewayClass", "lab", "",
                   {"controllerName": CONTROLLER}, features)  # fmt: skip
        self._make("gateways.gateway.networking.k8s.io", group, "Gateway", GATEWAY, NAMESPACE,
                   {"gatewayClassName": "lab", "listeners": [listener]}, {"conditions": said})  # fmt: skip
        labels = {"app": "docs"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "docs"}]}}
        spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
        route = {"parentRefs": [{"name": GATEWAY}], "hostnames": ["theirs.example"], "rules": [their_rule()]}
        for namespace in (NAMESPACE, "elsewhere"):
            for name in ("docs", f"{SERVICE}-r1-theirs", f"{SERVICE}-r2.removed.theirs"):
                self._apply("v1", "ConfigMap", name, namespace)
            self._apply("v1", "Service", "docs", namespace, {"ports": [{"port": 80}], "selector": labels})
            self._apply("apps/v1", "Deployment", "docs", namespace, spec)
            self._apply(group, "HTTPRoute", "theirs", namespace, route)
        for _ in range(5):
            self.advance(1)

    def _make(
        self, resource: str, version: str, kind: str, name: str, namespace: str, spec: Object, status: Object
    ) -> None:
        metadata = {"name": name, "uid": name} | ({"namespace": namespace} if namespace else {})
        metadata |= {"generation": 1}  # type: ignore[dict-item]
        item = {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec, "status": status}
        self.server.plant(resource, item)

    def _apply(
        self, version: str, kind: str, name: str, namespace: str = NAMESPACE, spec: Object | None = None
    ) -> None:
        """Create an object of another team."""
        metadata = {"name": name, "namespace": namespace, "annotations": {"owner": "another-team"}}
        item: Object = {"apiVersion": version, "kind": kind, "metadata": metadata}
        self.client.create(item | ({"spec": spec} if spec else {}))

    @property
    def engine(self) -> str:
        return "vllm" if self.in_groups else "echo"

    def _set(self, then: Callable[[Any], object]) -> dict[str, Any]:
        self.team = Team.objects.get_or_create(name="speech")[0]
        self.requester = self._person("ada", Role.DEVELOPER)
        self.approver = self._person("bo", Role.APPROVER)
        self.cluster = Cluster.objects.create(name="west", kind="kubernetes", next_at=self.clock())
        http_routes = {SERVICE: "theirs"} if self.is_theirs else {}
        set_gateway(
            actor=Actor.system("test"),
            cluster=self.cluster,
            kind=GatewayKind.GATEWAY_API,
            metrics=MetricsKind.WORKERS,
            settings={"gateway": GATEWAY, "hostnames": ["models.example"], "http_routes": http_routes},
        )
        image("worker", engine=self.engine)
        self.v1, self.v2 = version_of(self.team, "story:v1"), version_of(self.team, "story:v2")
        self.name = SERVICE
        self.service = self._service()
        return {}

    def _service(self) -> Service:
        save_plan(actor=Actor.system("test"), team=self.team, name="brief", body=PLAN)
        service = create_service(
            actor=Actor.system("test"),
            team=self.team,
            name=self.name,
            model=self.v1.model,
            version=self.v1,
            cluster=self.cluster,
            engine=self.engine,
            replicas=2,
            pod={"nodes_per_replica": 2} if self.in_groups else {},
            plan_name="brief",
        )
        if self.in_groups:
            patch = propose_patch(service, actor=self.requester, patch=PATCH, reason="Ours.")
            approve_patch(patch, actor=self.approver, reason="Fine.")
        self.run_until(lambda: Service.objects.get(pk=service.pk).stable_version_id is not None, seconds=60)
        service.refresh_from_db()
        return service

    def reconcilers(self) -> list[Reconciler[Any]]:
        tools = DeploymentTools(heartbeats=lambda _names: None, agents=lambda _: None, relay=lambda _: None)
        clusters = ClusterReconciler(agents_of=lambda _: {}, relay_of=lambda _: None)
        return [ReleaseReconciler(), DeploymentReconciler(tools), GatewayReconciler(), clusters]

    # Time.

    def advance(self, seconds: float) -> None:
        self.server.advance(seconds)
        self.controller.tick()

    def send(self, requests: int = REQUESTS) -> dict[str, int]:
        """Also what nobody answers: from the moment on when the service has had a route."""
        self._route_was = self._route_was or bool(self.weights())
        asks = self._route_was and not self.clients.is_closed
        return self.clients.ask(self.name, requests) if asks else {}

    def tick(self, kernel: Kernel) -> None:
        try:
            kernel.sweep()
        except Crash:
            self.pass_(LEASE_AND_A_BIT.total_seconds())
        self.send()
        self.pass_(SECONDS)

    def pass_(self, seconds: float) -> None:
        self.advance(seconds)
        self.clock.pass_(timedelta(seconds=seconds))

    def others_go_on(self, how_long: str) -> None:
        self.pass_(LEASE_AND_A_BIT.total_seconds())
        if how_long == "to the end":
            self.live_to_the_end()
        kernel = worker(self.reconcilers(), self.clock, Checkpoints())
        for _ in range(24):
            self.tick(kernel)

    def serve(self, call: ApiCall) -> None:
        self.server.handle(
            ApiRequest(call.method, call.path, call.query, call.headers, call.body or b"", ADMIN)
        )

    # What is there.

    def _behaviour(self, pod: Object) -> str:
        labels = pod["metadata"].get("labels") or {}
        if labels.get("slipway.io/deployment") in self.broken:
            return "imagepull"
        return "succeed" if "job-name" in labels else behaviour_of(pod)

    def route_row(self) -> Any:
        return Route.objects.get(service=self.name)

    def weights(self) -> dict[str, int]:
        """Return the weights that the data plane has."""
        found = self.controller.programmed.get("theirs" if self.is_theirs else f"slipway-{self.name}")
        rules = found["spec"]["rules"] if found else ()
        return {
            ref["name"]: ref["weight"]
            for rule in rules
            if rule.get("name") == f"slipway.{self.name}"
            for ref in rule.get("backendRefs") or ()
        }

    def ready_pods(self, deployment: str) -> Iterator[Object]:
        for key, pod in self.server.storage._objects.items():
            if key.resource != "pods" or not deployment:
                continue
            labels = pod["metadata"].get("labels") or {}
            conditions = (pod.get("status") or {}).get("conditions") or ()
            if labels.get("slipway.io/deployment") == deployment and any(
                one["type"] == "Ready" and one["status"] == "True" for one in conditions
            ):
                yield pod

    def running(self, deployment: str) -> int:
        return len(list(self.ready_pods(deployment)))

    def objects(self) -> dict[tuple[str, str, str], Object]:
        """All of the cluster, but for what changes by itself."""
        return {
            tuple(key): item  # type: ignore[misc]
            for key, item in self.server.storage._objects.items()
            if key.resource not in IN_PASSING
        }

    def plain(self, item: Object) -> Object:
        """Return what must not change: all of it; of an HTTPRoute of others, all but our rules."""
        if not self.is_theirs or item.get("kind") != "HTTPRoute":
            return item
        metadata = {key: item["metadata"][key] for key in ("name", "namespace", "uid")}
        metadata["annotations"] = {
            key: text
            for key, text in item["metadata"]["annotations"].items()
            if not key.startswith("slipway.io/")
        }
        rules = [one for one in item["spec"]["rules"] if not one["name"].startswith("slipway.")]
        return {"kind": "HTTPRoute", "metadata": metadata, "spec": item["spec"] | {"rules": rules}}

    def take_name(self, name: str) -> None:
        """Another team is there first."""
        labels = {"app": "theirs"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
        spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
        before = self.objects().keys()
        self._apply("v1", "Service", name, spec={"ports": [{"port": 80}], "selector": labels})
        if self.in_groups:
            group = {"replicas": 0, "leaderWorkerTemplate": {"size": 2, "workerTemplate": template}}
            self._apply("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", name, spec=group)
        else:
            self._apply("apps/v1", "Deployment", name, spec=spec)
        for _ in range(3):
            self.advance(1)
        self.foreign |= {key: item for key, item in self.objects().items() if key not in before}


@contextmanager
def a_scene(**how: bool) -> Iterator[KubernetesScene]:
    with pytest.MonkeyPatch.context() as patched:
        yield KubernetesScene(patched, **how)
