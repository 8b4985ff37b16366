"""An API server with controllers, a scheduler and kubelets behind it. Nothing happens until time goes on."""

from collections.abc import Iterable
from datetime import datetime

from kube.fake.clock import START
from kube.fake.controllers import (
    budgets,
    claims,
    collecting,
    daemon_sets,
    deployments,
    device_plugin,
    jobs,
    leader_worker_sets,
    machines,
    mig_manager,
    quota_status,
    replica_sets,
    stateful_sets,
)
from kube.fake.controllers.controller_tools import ControllerTools
from kube.fake.controllers.node_lifecycle import Evictions, NodeLifecycle, PodCollector
from kube.fake.controllers.scheduling import Scheduler
from kube.fake.kinds import BUILT_IN, ObjectKind
from kube.fake.server import FakeApiServer, Object

TICK_SECONDS = 0.25
IDLE_TICK_SECONDS = 1.0
"""When nothing has changed for `IDLE_TICKS`."""
IDLE_TICKS = 8
ROOT_CA = "kube-root-ca.crt"
AUTHORITY = "-----BEGIN CERTIFICATE-----\nfake\n-----END CERTIFICATE-----\n"


class SimulatedCluster(FakeApiServer):
    """`controllers_run` False: the controller manager is away; scheduler and kubelets go on. `operators_run`
    False: extensions have their definitions, and nobody who does what their objects say."""

    def __init__(
        self,
        *,
        seed: int = 1,
        kinds: Iterable[ObjectKind] = BUILT_IN,
        nodes: Iterable[Object] = (),
        start: datetime = START,
    ) -> None:
        self.kubelets = machines.Kubelets()
        self.controllers_run = True
        self.operators_run = True
        super().__init__(seed=seed, kinds=kinds, start=start)
        self._hands = ControllerTools(self)
        self._jobs = jobs.JobController()
        self._replica_sets = replica_sets.ReplicaSets()
        self._idle_ticks = 0
        self._seen = 0
        self._namespaces = collecting.Namespaces()
        self._reports = machines.Reports()
        self._nodes, self._evictions, self._pods = NodeLifecycle(), Evictions(), PodCollector()
        self._scheduler = Scheduler()
        for node in nodes:
            self.plant("nodes", {"apiVersion": "v1", "kind": "Node"} | node)

    def advance(self, seconds: float) -> None:
        """Let so much time pass, with all that happens in it: four turns a second, one while nothing does."""
        end = self.clock.seconds + seconds
        while True:
            is_idle = self._idle_ticks >= IDLE_TICKS and self._seen == self._news
            length = IDLE_TICK_SECONDS if is_idle else TICK_SECONDS
            tick = (self.clock.seconds // length + 1) * length
            if tick > end:
                break
            self.clock.seconds = tick
            before, self._seen = self._seen, self._news
            self.step()
            is_idle = before == self._seen == self._news
            self._idle_ticks = self._idle_ticks + 1 if is_idle else 0
        self.clock.seconds = end

    @property
    def _news(self) -> int:
        """Writes but those that say that nothing is new."""
        return self.storage.revision - self._reports.renewals

    def step(self) -> None:
        """Run each controller once."""
        hands = self._hands
        with self.storage.lock:
            self._reports.step(hands, self.kubelets)
            self.kubelets.step(hands)
            if self.controllers_run:
                self._furnish()
                # What kubelets have said reaches the Deployment in one turn, and its wish the pods in one.
                self._replica_sets.step(hands)
                deployments.step(hands)
                self._replica_sets.step(hands)
                if self.operators_run:
                    leader_worker_sets.step(hands)
                    mig_manager.step(hands)
                    device_plugin.step(hands)
                stateful_sets.step(hands)
                daemon_sets.step(hands)
                claims.step(hands)
                self._jobs.step(hands)
                self._nodes.step(hands, self.kubelets)
                self._evictions.step(hands)
                self._pods.step(hands)
                collecting.collect(hands)
                self._namespaces.step(hands)
                budgets.step(hands)
                quota_status.step(hands)
            self._scheduler.step(hands)
            self.events.expire()

    def _furnish(self) -> None:
        """Every namespace has the cluster's authority and an account."""
        for namespace in self._hands.all("namespaces"):
            name = namespace["metadata"]["name"]
            if "deletionTimestamp" in namespace["metadata"]:
                continue
            if self._hands.get("configmaps", name, ROOT_CA) is None:
                metadata = {"name": ROOT_CA, "namespace": name}
                self._hands.create("configmaps", {"metadata": metadata, "data": {"ca.crt": AUTHORITY}})
            if self._hands.get("serviceaccounts", name, "default") is None:
                self._hands.create("serviceaccounts", {"metadata": {"name": "default", "namespace": name}})


def node(name: str, *, labels: dict[str, str] | None = None, **allocatable: str) -> Object:
    """A machine that is ready: `node("gpu-1", cpu="8", memory="32Gi", **{"nvidia.com/gpu": "4"})`."""
    room = {"cpu": "8", "memory": "32Gi", "pods": "110"} | allocatable
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    return {
        "metadata": {
            "name": name,
            "uid": f"node-{name}",
            "creationTimestamp": "2026-11-22T08:52:39Z",
            "labels": {"kubernetes.io/hostname": name} | (labels or {}),
        },
        "spec": {},
        "status": {"capacity": room, "allocatable": room, "conditions": [ready]},
    }
