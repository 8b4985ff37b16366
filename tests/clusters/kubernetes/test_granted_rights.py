"""The rights of the manifest: each is used, and with them alone everything works.

The worlds of the other tests speak as the manifest's account, too: a right that is missing fails there.
"""

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from threading import Event
from typing import Any

import pytest

from clusters.backends.base import BackendError, ClusterRightsMissing, ObservedNode
from clusters.backends.kubernetes import watching
from clusters.backends.kubernetes.backend import KubernetesCluster
from clusters.backends.kubernetes.devices import KubernetesDevices
from clusters.backends.kubernetes.kueue import KueueQuotas, put_priority
from clusters.backends.kubernetes.rights import RIGHTS, Feature, NeededRight, manifest
from clusters.backends.kubernetes.settings import KubernetesSettings
from clusters.backends.node_operations import NodeCommand, OperationUnsupported
from clusters.backends.workloads import Quota
from clusters.states import CheckResult
from common.fence import Fence
from common.jobs.spec import JobContainer
from graphs.errors import RayOrderInvalid
from kube.client import APPLY_PATCH, KubeClient
from kube.fake.cluster import SimulatedCluster
from kube.fake.extensions import EXTENSIONS
from kube.fake.gateway_api import gateway_api
from kube.fake.kinds import BUILT_IN
from kube.fake.mig_devices import mig_slices
from kube.fake.rights import AccessRequest, asked_for
from kube.fake.transport import FakeTransport
from kube.fake.wire import ApiRequest
from kube.transport import ApiCall
from tests.clusters.kubernetes import test_backend
from tests.clusters.kubernetes.files_world import FilesWorld
from tests.clusters.kubernetes.test_jobs import JOB
from tests.clusters.kubernetes.test_model_files import claim, filled_claim
from tests.clusters.kubernetes.test_nodes import recorded
from tests.clusters.kubernetes.test_relay import IMAGE
from tests.clusters.kubernetes.test_relay import SETTINGS as WITH_RELAY
from tests.gateway.gateway_api import test_pools
from tests.graphs import test_kuberay
from tests.kube.accounts import RBAC, grant, revoke

OF_OBJECTS = re.compile(r"/api/v1/.|/apis/[^/]+/[^/]+/.")
WITH_EXTENSIONS = (*BUILT_IN, *EXTENSIONS, *gateway_api())


def asked_by(transport: FakeTransport) -> Iterable[AccessRequest]:
    """Return requests for objects, without discovery."""
    for call in transport.calls:
        if OF_OBJECTS.match(call.path):
            yield (asked := _asked(call))
            if call.headers.get("content-type") == APPLY_PATCH:
                yield replace(asked, verb="create")


def _asked(call: ApiCall) -> AccessRequest:
    return asked_for(ApiRequest(call.method, call.path, call.query, call.headers))


def is_used(right: NeededRight, verb: str, asked: Iterable[AccessRequest]) -> bool:
    return any(
        (one.verb, one.group, one.whole) == (verb, right.resource.group, right.kind)
        and (not right.names or one.name in right.names)
        and (not right.is_everywhere or one.name or not one.namespace)
        for one in asked
    )


def a_pod(world: test_backend.World, name: str, machine: str) -> None:
    """Create another's pod, in another namespace, that wants a checkpoint."""
    metadata = {"name": name, "namespace": "theirs", "annotations": {"slipway.io/checkpoint": "30"}}
    spec = {"nodeName": machine, "containers": [{"name": "c", "image": "i"}]}
    world.server.make("pods", {"metadata": metadata, "spec": spec})


def deployments_and_machines() -> list[AccessRequest]:
    world = test_backend.World(WITH_EXTENSIONS)
    world.server.plant("nodes", recorded())
    world.server.make("namespaces", {"metadata": {"name": "theirs"}})
    spec = replace(test_backend.SPEC, leaving=())
    for turn in (1, 2):
        world.cluster.apply(spec, fence=Fence(1, turn))
    group = replace(spec, name="group", nodes=2)
    for turn in (1, 2):
        with suppress(BackendError):
            world.cluster.apply(group, fence=Fence(2, turn))
    labels = {"slipway.io/deployment": spec.name, "pod-template-hash": "x"}
    container = {"name": "worker", "image": "i"}
    world.server.make(
        "pods",
        {
            "metadata": {"name": "mine", "namespace": "slipway", "labels": labels},
            "spec": {"containers": [container]},
        },
    )
    world.server.logs["slipway", "mine", "worker"] = "Ready.\n"
    assert [one.name for one in world.cluster.observe(spec.name)] == ["mine"]
    world.cluster.logs("mine", lines=5)
    world.cluster.apply(replace(spec, leaving=("mine",)), fence=Fence(1, 3))
    (machine,) = world.cluster.nodes()
    assert isinstance(machine, ObservedNode)
    operations = world.cluster.node_operations
    for number, name in enumerate(("first", "second")):
        a_pod(world, name, machine.name)
        order = NodeCommand(f"op-{number}", Fence(1, number), "ada", "why")
        (pod,) = (one for one in operations.pods(machine.uid) if one.name == name)
        operations.ask_checkpoint(machine.uid, pod, order)
        operations.evict(machine.uid, pod, order, past_budgets=name == "second")
    job = replace(JOB, container=JobContainer(image=IMAGE))
    operations.run_job(machine.uid, job, NodeCommand(JOB.op_key, Fence(1, 2), "ada", "why"))
    operations.jobs(machine.uid).stop(JOB.name)
    world.cluster.pods()
    world.cluster.checks()
    world.cluster.tidy(())
    world.cluster.remove(spec.name, fence=Fence(1, 4))
    client = KubeClient(world.transport)
    for wanted in (WITH_RELAY, WITH_RELAY, replace(WITH_RELAY, relay_image="")):
        KubernetesCluster(client, wanted, relay_token="token").hand_out_secrets()
    return [*asked_by(world.transport), *watched(world)]


def watched(world: test_backend.World) -> list[AccessRequest]:
    """Return the requests of one round of each informer."""
    transport = FakeTransport(world.server, user=world.user, longest_watch_seconds=0.0)
    client = KubeClient(transport)
    stop = Event()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(watching, "Thread", Once)
        watching.watch(
            client,
            test_backend.SETTINGS,
            stop,
            deployment_changed=lambda _: None,
            machines_changed=lambda: None,
        )
    return list(asked_by(transport))


class Once:
    """Replaces a thread by one step of the informer, without what waits for silence."""

    def __init__(self, target: Any, args: Any = None, **_: Any) -> None:
        self._informer, self._stop = (target.__self__, args[0]) if args else (None, None)

    def start(self) -> None:
        if self._informer is not None:
            self._informer.step(self._stop)
            assert not self._informer.problem


def model_files() -> list[AccessRequest]:
    asked: list[AccessRequest] = []
    old = {"slipway.io/asked-at": "1"}
    for make in (filled_claim, claim):
        world = make()
        for turn in (1, 2):
            with suppress(BackendError):
                world.apply(turn=turn)
            for kind in ("persistentvolumeclaims", "jobs.batch"):
                _date_back(world, kind, old)
        if make is filled_claim:
            world.job_pod()
            with suppress(BackendError):
                world.apply(turn=3)
            world.end_job("Complete")
            with suppress(BackendError):
                world.apply(turn=4)
        _date_back(world, "persistentvolumeclaims", old)
        world.cluster.tidy(())
        asked += asked_by(world.transport)
    return asked


def _date_back(world: FilesWorld, kind: str, annotations: dict[str, str]) -> None:
    """Nobody has asked for it for long."""
    for key, item in world.server.storage.held():
        if key.resource == kind and "annotations" in item["metadata"]:
            item["metadata"]["annotations"].update(annotations)


def routes() -> list[AccessRequest]:
    cluster = test_pools.cluster()
    for turn, percent in enumerate((10, 20)):
        spec = replace(test_pools.SPEC, candidate_percent=percent)
        cluster.gateway.set_route(spec, fence=Fence(1, turn))
    cluster.gateway.remove_route("chat", fence=Fence(1, 3))
    cluster.gateway._clock = lambda: datetime.now(UTC) + timedelta(days=2)
    cluster.gateway.refresh()
    return list(asked_by(cluster.transport))


def graphs_on_ray() -> list[AccessRequest]:
    world = test_kuberay.World()
    queued = replace(test_kuberay.ORDER, queue="team-a")
    with suppress(RayOrderInvalid):
        world.ray.submit(queued)
    world.queue("team-a")
    for order in (queued, replace(test_kuberay.ORDER, name="served", source="", out="")):
        world.ray.submit(order)
    world.ray.observe(queued.name, is_job=True)
    for name, is_job in world.ray.running("translate"):
        world.ray.observe(name, is_job=is_job)
        world.ray.abort(name, is_job=is_job)
    return list(asked_by(world.transport))


def quotas_of_kueue() -> list[AccessRequest]:
    world = test_kuberay.World()
    settings = KubernetesSettings(store_url="https://slipway.example", namespace="default")
    kueue = KueueQuotas(KubeClient(world.transport), settings)
    pools = [Quota(name=name, machines={"pool": name}, cards=8, guarantee=8) for name in ("a", "b")]
    for cohort in (pools, pools[:1], []):
        kueue.put(cohort)
        kueue.observe("a")
    put_priority(KubeClient(world.transport), 5)
    return list(asked_by(world.transport))


def claims_of_devices() -> list[AccessRequest]:
    server = SimulatedCluster()
    server.advance(1)
    for one in mig_slices("gpu-0", cards=1):
        server.make("resourceslices.resource.k8s.io", one)
    transport = FakeTransport(server)
    settings = KubernetesSettings(store_url="https://slipway.example", namespace="default")
    devices = KubernetesDevices(KubeClient(transport), settings)
    assert devices.observe()
    for _ in range(2):
        devices.put_template("small", "1g.10gb")
    assert devices.has_template("small")
    devices.remove_template("small")
    return list(asked_by(transport))


def test_every_right_of_the_manifest_is_used() -> None:
    asked = {
        *deployments_and_machines(),
        *model_files(),
        *routes(),
        *graphs_on_ray(),
        *quotas_of_kueue(),
        *claims_of_devices(),
    }
    unused = [
        f"{verb} {right.name}" for right in RIGHTS for verb in right.verbs if not is_used(right, verb, asked)
    ]
    assert unused == []


def test_two_installations_share_no_name_outside_of_their_namespaces() -> None:
    def wide(namespace: str) -> set[tuple[str, str]]:
        documents = manifest(namespace=namespace)
        return {
            (one["kind"], one["metadata"]["name"]) for one in documents if "namespace" not in one["metadata"]
        }

    assert not wide("team-a") & wide("team-b")


def test_rights_in_namespaces_are_not_granted_for_the_whole_cluster() -> None:
    (role,) = [one for one in manifest(namespace="ml") if one["kind"] == "ClusterRole"]
    rights = {name: sorted(rule["verbs"]) for rule in role["rules"] for name in rule["resources"]}
    assert rights == {
        "nodes": ["get", "list", "patch", "watch"],
        "pods": ["delete", "get", "list", "patch", "watch"],
        "events": ["list", "watch"],
        "pods/eviction": ["create"],
        "poddisruptionbudgets": ["list"],
        # A Gateway stands where others have put it.
        "gateways": ["get"],
        "namespaces": ["get"],
        "storageclasses": ["list"],
        "gatewayclasses": ["get", "list"],
        # Kueue's quotas lie outside of namespaces.
        "clusterqueues": ["create", "delete", "get", "list", "patch"],
        "cohorts": ["create", "delete", "list", "patch"],
        "resourceflavors": ["create", "delete", "list", "patch"],
        "topologies": ["create", "delete", "list", "patch"],
        "workloadpriorityclasses": ["create", "patch"],
        # A driver publishes slices outside of namespaces, and others' claims hold parts of its cards.
        "resourceslices": ["list"],
        "resourceclaims": ["list"],
    }
    (without,) = [
        one
        for one in manifest(namespace="ml", features={*Feature} - {Feature.FORCED_DRAIN, Feature.QUEUES})
        if one["kind"] == "ClusterRole"
    ]
    assert "delete" not in str(without)


def checks_of(world: test_backend.World) -> dict[str, CheckResult]:
    return {one.name: one.result for one in world.cluster.checks()}


def test_checks_are_silent_on_what_was_left_out_and_warn_of_what_was_taken_away() -> None:
    world = test_backend.World()
    leaving = {Feature.NODE_OPERATIONS, Feature.CHECKS, Feature.DRAIN, Feature.FORCED_DRAIN}
    revoke(world.server)
    grant(world.server, "slipway", "team-a", features={*Feature} - leaving)
    found = checks_of(world)
    assert found["right: patch nodes"] is CheckResult.LEFT_OUT
    assert found["namespace slipway"] is CheckResult.LEFT_OUT
    assert CheckResult.FAILED not in found.values()
    assert {name for name, result in found.items() if result is CheckResult.WARNING} == {
        "GPUs",
        "gateway classes",
    }
    assert world.cluster.right_checks() == tuple(
        one for one in world.cluster.checks() if one.name.startswith("right: ")
    )

    revoke(world.server, f"clusterrolebindings.{RBAC}")
    assert checks_of(world)["right: read nodes"] is CheckResult.FAILED


def test_a_right_that_was_granted_is_waited_for_and_one_that_never_was_is_refused() -> None:
    world = test_backend.World()
    world.server.plant("nodes", recorded())
    (machine,) = world.cluster.nodes()
    revoke(world.server)
    with pytest.raises(ClusterRightsMissing, match="Waiting for rights"):
        world.cluster.node_operations.pods(machine.uid)
    grant(world.server, "slipway", features={Feature.INVENTORY})
    with pytest.raises(OperationUnsupported, match="--feature drain"):
        world.cluster.node_operations.pods(machine.uid)
