"""What clusters show of their machines becomes findings, once, and only while it is fresh."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from clusters.backends.base import ObservedNode
from clusters.backends.kubernetes.nodes import node_of
from clusters.backends.kubernetes_events import KubernetesEvent
from clusters.models import Cluster, Gpu, Node
from clusters.reconcilers.inventory import node_columns
from clusters.shared_machines import SharedEvents
from clusters.states import NodeState
from gpu_health.models import Finding
from gpu_health.services import node_signals
from gpu_health.services.node_signals import read_events, read_node, unread_nodes
from tests import cast
from tests.clusters.kubernetes.test_nodes import recorded

pytestmark = pytest.mark.django_db
DEADLOCK = {"type": "KernelDeadlock", "status": "True", "reason": "DockerHung", "message": "blocked"}
EKS = {"type": "AcceleratedHardwareReady", "status": "False", "reason": "NvidiaXID79Error", "message": ""}


@pytest.fixture
def node() -> Node:
    cluster = Cluster.objects.create(name="eks", kind="kubernetes", team=cast.team("serving"))
    row = Node.objects.create(
        cluster=cluster, uid="n-1", name="gpu-1", seen_at=timezone.now(), seen_as="a", state=NodeState.READY
    )
    for index in range(2):
        Gpu.objects.create(cluster=cluster, node=row, uuid=f"n-1/{index}", index=index)
    return row


def seen(node: Node, as_: str, **columns: Any) -> None:
    """The survey writes what it saw, and the machine is read if that is news."""
    now = timezone.now()
    Node.objects.filter(pk=node.pk).update(seen_as=as_, seen_at=now, **columns)
    for row in unread_nodes(now):
        read_node(row, now)


def open_faults() -> set[str]:
    return set(Finding.objects.filter(state="open").values_list("fault", flat=True))


def test_conditions_of_both_polarities_are_found_once_and_end_when_they_are_over(node: Node) -> None:
    seen(node, "b", conditions=[DEADLOCK, EKS])
    assert open_faults() == {"kernel.deadlock", "xid.79"}

    seen(node, "c", conditions=[DEADLOCK, EKS], labels={"a": "b"})
    assert Finding.objects.get(fault="xid.79").count == 1

    seen(node, "d", conditions=[EKS])
    assert open_faults() == {"xid.79"}
    assert Finding.objects.get(fault="kernel.deadlock").state == "cleared"


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb"])
def test_gpus_slices_and_shares_that_are_not_allocatable_are_found(node: Node, resource: str) -> None:
    has = {"nvidia.com/gpu": 0} | {resource: 8}
    seen(node, "b", capacity=has, allocatable=has | {resource: 7})
    assert open_faults() == {"device_plugin.unhealthy"}
    seen(node, "c", capacity=has, allocatable=has)
    assert open_faults() == set()


def test_seven_of_eight_gpus_are_found_where_mig_is_configured_and_not_used(node: Node) -> None:
    document = recorded()
    document["metadata"]["labels"]["nvidia.com/mig.strategy"] = "single"
    document["status"]["allocatable"]["nvidia.com/gpu"] = "7"
    observed = node_of(document)
    assert isinstance(observed, ObservedNode)
    seen(node, "b", **{name: node_columns(observed)[name] for name in ("capacity", "allocatable")})
    assert open_faults() == {"device_plugin.unhealthy"}
    assert Finding.objects.get().raw == "7 of 8 nvidia.com/gpu are allocatable"


def test_a_machine_is_read_only_when_it_was_seen_otherwise(node: Node) -> None:
    seen(node, "b")
    assert not unread_nodes(timezone.now()).exists()
    Node.objects.update(seen_as="c")
    assert unread_nodes(timezone.now()).exists()


@pytest.mark.parametrize("stale", ["node", "cluster", "old"])
def test_what_is_stale_is_not_judged(node: Node, stale: str) -> None:
    Node.objects.update(conditions=[DEADLOCK], seen_as="b")
    if stale == "node":
        Node.objects.update(state=NodeState.UNKNOWN)
    elif stale == "cluster":
        Cluster.objects.update(problem="It does not answer.")
    else:
        Node.objects.update(seen_at=timezone.now() - timedelta(minutes=10))

    assert not unread_nodes(timezone.now()).exists()


def test_an_event_of_a_machine_is_found_once_and_again_when_it_is_told_again(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = timezone.now()
    told = KubernetesEvent(
        "Node", "gpu-1", "NvidiaXID79Error", "fell off", True, 1, now, now, "eks-node-monitoring-agent"
    )
    old = replace(told, reason="NvidiaXID48Error", last_at=now - timedelta(hours=1))
    heard = [told, old, replace(told, name="gpu-9"), replace(told, reason="Rebooted")]
    monkeypatch.setattr(node_signals, "events_about", lambda *_: SharedEvents(tuple(heard), now))

    assert [read_events(node.cluster, now) for _ in range(2)] == [1, 0]
    heard[0] = replace(told, count=2, last_at=now + timedelta(seconds=5))
    read_events(node.cluster, now)

    assert open_faults() == {"xid.79"}
    assert Finding.objects.get().count == 2


def test_events_that_nobody_hears_tell_nothing(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_signals, "events_about", lambda *_: None)

    assert read_events(node.cluster, timezone.now()) == 0
