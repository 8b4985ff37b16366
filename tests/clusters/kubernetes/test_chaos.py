"""Whatever goes wrong between the control plane and a cluster: in the end its objects are what was wanted.

Never one too many, never an orphan, and what others have stays as it was.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clusters.backends.base import BackendError
from clusters.backends.kubernetes.backend import KubernetesCluster
from clusters.backends.kubernetes.settings import KubernetesSettings
from common.fence import Fence
from kube.client import KubeClient
from kube.fake.chaos import Chaos, Mishap
from kube.fake.controllers.collecting import collect
from kube.fake.controllers.controller_tools import ControllerTools
from kube.fake.server import FakeApiServer
from kube.fake.transport import FakeTransport
from kube.resources import CONFIG_MAPS, DEPLOYMENTS, DISRUPTION_BUDGETS, SECRETS, SERVICES
from tests.clusters.kubernetes.test_manifests import SPEC

pytestmark = pytest.mark.any_database

SETTINGS = KubernetesSettings(store_url="https://slipway.example", namespaces=("team-a",))
OURS = (CONFIG_MAPS, SECRETS, SERVICES, DISRUPTION_BUDGETS, DEPLOYMENTS)
HOME = SETTINGS.namespace
NEIGHBOUR = replace(SPEC, name="chat-v1-0", replicas=1)
"""Another deployment of ours, which nobody touches meanwhile."""


class World:
    def __init__(self) -> None:
        self.server = FakeApiServer()
        for name in (*SETTINGS.all_namespaces, "elsewhere"):
            self.server.make("namespaces", {"metadata": {"name": name}})
        self.transport = FakeTransport(self.server)
        self.client = KubeClient(FakeTransport(self.server))
        self.others = KubeClient(FakeTransport(self.server), field_manager="somebody-else")
        self.chaos = Chaos(self.server)
        self.transport.faults.append(self.chaos)
        self.cluster = KubernetesCluster(KubeClient(self.transport), SETTINGS, store_token="sesame")
        self.turn = 0
        for namespace, name in (("elsewhere", SPEC.name), (HOME, f"{SPEC.name}-theirs"), (HOME, "chat-v2")):
            self.others.create(
                {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {"name": name, "namespace": namespace, "labels": {"app": SPEC.name}},
                }
            )
        KubernetesCluster(self.client, SETTINGS, store_token="sesame").apply(NEIGHBOUR, fence=Fence(1, 1))
        self.foreign = self.state(of_us=False)

    def try_(
        self, wish: "Wish", *, sleeps_before_call: int = 0, meanwhile: Callable[[], object] = int
    ) -> bool:
        """Attempt a step and tell whether it came through. It may sleep past its lease, and others go on."""
        self.turn += 1
        fence = Fence(1, self.turn)
        calls = [0]

        def sleep(_: Any) -> None:
            calls[0] += 1
            if calls[0] == sleeps_before_call:
                meanwhile()

        self.transport.faults.insert(0, sleep)
        try:
            if wish.replicas is None:
                self.cluster.remove(SPEC.name, fence=fence)
            else:
                self.cluster.apply(wish.spec, fence=fence)
        except BackendError:
            return False
        finally:
            self.transport.faults.remove(sleep)
        return True

    def settle(self, wish: "Wish") -> None:
        """Reconcile to the end, now that nothing fails any more. Removed deployments are not looked at;
        writes still on their way arrive.
        """
        self.chaos.calm()
        self._until_through(wish)
        self.chaos.serve_late()
        self.collect_garbage()
        if wish.replicas is None:
            self.cluster.tidy(())
            self.collect_garbage()
        else:
            self._until_through(wish)

    def _until_through(self, wish: "Wish") -> None:
        for _ in range(5):
            self.collect_garbage()
            if self.try_(wish):
                return
        raise AssertionError("It never came through.")

    def collect_garbage(self) -> None:
        """Delete one level of owned objects after the other, as the cluster does."""
        for _ in range(4):
            collect(ControllerTools(self.server))

    def state(self, *, of_us: bool) -> dict[tuple[str, str, str], Any]:
        """Return the cluster's objects, by kind, namespace and name: of the deployment, or of all others."""
        return {
            (resource.kind, one["metadata"]["namespace"], one["metadata"]["name"]): one
            for resource in OURS
            for one in self.client.list(resource).items
            if of_us == (_deployment_of(one) == SPEC.name)
        }


def _deployment_of(item: dict[str, Any]) -> str:
    return str((item["metadata"].get("labels") or {}).get("slipway.io/deployment", ""))


@dataclass(frozen=True)
class Wish:
    replicas: int | None
    """None: that it goes."""
    namespace: str = HOME
    label: str = ""

    @property
    def spec(self) -> Any:
        placement = replace(SPEC.placement, namespace=self.namespace)
        return replace(
            SPEC,
            replicas=self.replicas or 0,
            placement=placement,
            labels={"cost-centre": self.label} if self.label else {},
        )


removed = Wish(None)
wishes = st.builds(Wish, replicas=st.sampled_from([0, 1, 2, 3, None]), label=st.sampled_from(["", "42"]))
mishaps = st.lists(st.none() | st.none() | st.sampled_from(Mishap), max_size=16)
attempts = st.tuples(wishes, mishaps, st.integers(0, 12), wishes)


def check(world: World, last: Wish) -> None:
    ours = world.state(of_us=True)
    tombstones = [key for key in ours if key[2] == f"{SPEC.name}.removed"]
    objects = {key for key in ours if key not in tombstones}
    if last.replicas is None:
        assert objects == set(), "orphans"
    else:
        kinds = ("ConfigMap", "Service", "PodDisruptionBudget", "Deployment")
        assert objects == {(kind, HOME, SPEC.name) for kind in kinds}
        deployment = ours["Deployment", HOME, SPEC.name]
        assert deployment["spec"]["replicas"] == last.replicas
        assert deployment["metadata"]["labels"].get("cost-centre", "") == last.label
    # A check of the cluster, due after a refused call, hands out the Secret of each namespace.
    handed_out = {("Secret", one, SETTINGS.store_secret) for one in SETTINGS.all_namespaces}
    new = handed_out - world.foreign.keys()
    others = {key: one for key, one in world.state(of_us=False).items() if key not in new}
    assert others == world.foreign


@settings(
    report_multiple_bugs=False, suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=15
)
@given(st.lists(attempts, max_size=3), wishes, st.tuples(wishes, st.integers(1, 14)))
def test_a_deployment_is_what_was_wanted_last_and_nothing_else_is_touched(
    course: list[Any], last: Wish, sleeper: tuple[Wish, int]
) -> None:
    world = World()
    for wish, calls, sleeps_before, meanwhile in course:
        world.chaos.calls.extend(calls)
        world.try_(wish, sleeps_before_call=sleeps_before, meanwhile=partial(world.try_, meanwhile))
    woken = False

    def last_of_all() -> None:
        nonlocal woken
        woken = True
        world.settle(last)

    world.try_(sleeper[0], sleeps_before_call=sleeper[1], meanwhile=last_of_all)
    if not woken:
        world.settle(last)
    world.collect_garbage()
    check(world, last)


@pytest.mark.parametrize("late_by", [2, 12])
def test_a_request_that_is_served_after_the_removal_leaves_nothing(late_by: int) -> None:
    for at in itertools.count(1):
        world = World()
        world.chaos.late_by = late_by
        world.chaos.calls.extend([*[None] * (at - 1), Mishap.LATE])
        if world.try_(Wish(2)):
            assert at > 10
            return
        world.settle(Wish(None))
        check(world, Wish(None))
