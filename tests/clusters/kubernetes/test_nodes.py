"""A machine as a real API server showed it (1.36), in our words."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.backends.base import GpuSharingMode, ObservedNode, UnreadNode
from clusters.backends.kubernetes.events import event_of
from clusters.backends.kubernetes.nodes import CORDON, node_of
from clusters.backends.kubernetes.quantities import amount, whole
from clusters.backends.kubernetes.watching import EventWatch
from clusters.backends.kubernetes_events import unpacked

RECORDED = Path(__file__).with_name("recorded_nodes.json").read_text()


def recorded() -> dict[str, Any]:
    node: dict[str, Any] = json.loads(RECORDED)["H100"]
    return node


def read(node: dict[str, Any]) -> ObservedNode:
    found = node_of(node)
    assert isinstance(found, ObservedNode), found
    return found


def test_a_machine_keeps_the_clusters_identity_of_it_and_says_which_gpus_it_has() -> None:
    node = read(recorded())
    assert node.name == "gpu-h100-1"
    assert node.uid == "07ad79ab-22cf-4958-b900-18ff82a3a52a"
    assert node.is_ready
    assert node.labels["topology.kubernetes.io/zone"] == "zone-a"
    assert [gpu.index for gpu in node.gpus or ()] == list(range(8))
    gpu = (node.gpus or ())[0]
    assert (gpu.name, gpu.memory_bytes) == ("NVIDIA H100 80GB HBM3", 81_559 * 2**20)


@pytest.mark.parametrize(
    ("labels", "capacity", "cards"),
    [
        ({"mig.strategy": "single"}, {"gpu": "8"}, {GpuSharingMode.NONE: 8}),
        ({"mig.strategy": "mixed"}, {"gpu": "8", "mig-1g.10gb": "0"}, {GpuSharingMode.NONE: 8}),
        (
            {"mig.strategy": "single", "gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", "gpu.count": "56"},
            {"gpu": "56"},
            {GpuSharingMode.MIG: 56},
        ),
        (
            {"mig.strategy": "mixed"},
            {"gpu": "4", "mig-1g.10gb": "28"},
            {GpuSharingMode.NONE: 4, GpuSharingMode.MIG: 4},
        ),
        ({"mig.strategy": "mixed"}, {"gpu": "0", "mig-3g.40gb": "16"}, {GpuSharingMode.MIG: 8}),
        ({"gpu.replicas": "4", "gpu.product": "L4-SHARED"}, {"gpu": "8"}, {GpuSharingMode.NONE: 8}),
        ({"gpu.replicas": "4", "gpu.product": "L4-SHARED"}, {"gpu": "32"}, {GpuSharingMode.TIME_SLICING: 8}),
        ({"gpu.sharing-strategy": "mps"}, {"gpu": "0", "gpu.shared": "32"}, {GpuSharingMode.MPS: 8}),
    ],
)  # fmt: skip
def test_sharing_is_read_from_what_the_machine_offers_and_not_from_what_is_configured(
    labels: dict[str, str], capacity: dict[str, str], cards: dict[GpuSharingMode, int]
) -> None:
    node = recorded()
    node["metadata"]["labels"] |= {f"nvidia.com/{name}": value for name, value in labels.items()}
    node["status"]["capacity"] |= {f"nvidia.com/{name}": value for name, value in capacity.items()}
    gpus = read(node).gpus or ()
    assert Counter(gpu.sharing for gpu in gpus) == cards
    assert not any(gpu.name.endswith("SHARED") for gpu in gpus)


def test_a_cordon_of_ours_names_who_and_why_and_anybody_elses_is_a_cordon_too() -> None:
    node = recorded()
    assert read(node).cordon is None
    node["spec"]["unschedulable"] = True
    node["spec"]["taints"] = [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]
    cordon = read(node).cordon
    assert cordon is not None
    assert cordon.by == ""
    assert read(node).taints == ()
    told = {"by": "ada", "reason": "fans", "since": "2026-11-22T09:00:00+00:00"}
    node["metadata"].setdefault("annotations", {})[CORDON] = json.dumps(told)
    cordon = read(node).cordon
    assert cordon is not None
    assert (cordon.by, cordon.reason) == ("ada", "fans")
    for garbage in ("{", "[]", '"x"', '{"since": "yesterday"}'):
        node["metadata"]["annotations"][CORDON] = garbage
        assert read(node).cordon is not None


def test_one_that_says_what_cannot_be_is_unread_and_named() -> None:
    node = recorded()
    node["status"]["capacity"]["memory"] = "much"
    found = node_of(node)
    assert isinstance(found, UnreadNode)
    assert found.name == "gpu-h100-1"
    assert "'much' is no quantity" in found.problem


@pytest.mark.parametrize(
    ("text", "number"),
    [("100m", "0.1"), ("1Gi", "1073741824"), ("1e3", "1000"), ("1E", "1e18"), ("0.5", "0.5"), ("2k", "2000")],
)
def test_amounts_are_read_as_kubernetes_writes_them(text: str, number: str) -> None:
    assert amount(text) == amount(number)


@given(st.integers(0, 10**12))
def test_whole_bytes_stay_what_they_are(count: int) -> None:
    assert whole(str(count)) == count
    assert whole(f"{count}Ki") == count * 1024
    assert amount(f"{count}m") * 1000 == count


def test_what_the_cluster_tells_is_counted_and_goes_with_its_event() -> None:
    def event(uid: str, **fields: Any) -> dict[str, Any]:
        about = {"kind": "Node", "name": "gpu-1"}
        return {"metadata": {"uid": uid}, "involvedObject": about, "type": "Warning", **fields}

    old = event_of(event("1", reason="Rebooted", count=2, lastTimestamp="2026-11-22T08:00:00Z"))
    last = {"count": 7, "lastObservedTime": "2026-11-22T09:00:00.5Z"}
    new = event_of(event("2", reason="NotReady", series=last, eventTime="2026-11-22T08:30:00Z"))
    bare = event_of({"metadata": {}})
    events = EventWatch()
    for one in (old, new, bare):
        events.changed(None, one)
    found = unpacked(events.packed()["Node gpu-1"])
    assert [(one.reason, one.count) for one in found] == [("NotReady", 7), ("Rebooted", 2)]
    events.changed(new, None)
    assert unpacked(events.packed()["Node gpu-1"]) == [old]
    events.changed(old, None)
    assert list(events.packed()) == [" "]


def test_a_pod_made_anew_under_its_name_is_not_told_of_as_its_predecessor_was() -> None:
    def event(of: str, reason: str) -> Any:
        about = {"kind": "Pod", "name": "chat-0", "uid": of}
        return event_of({"metadata": {"uid": f"{of}-{reason}"}, "involvedObject": about, "reason": reason})

    def shown() -> list[str]:
        return [one.reason for one in unpacked(events.packed().get("Pod chat-0", b"[]"))]

    events = EventWatch()
    events.stands("Pod", "chat-0", "first")
    events.changed(None, event("first", "OOMKilling"))
    assert shown() == ["OOMKilling"]
    events.left("Pod", "chat-0", "first")
    assert shown() == ["OOMKilling"], "of a pod that is gone everything is told"
    events.stands("Pod", "chat-0", "second")
    assert shown() == []
    events.changed(None, event("second", "Scheduled"))
    events.changed(None, event("first", "Killing"))
    assert shown() == ["Scheduled"]
    events.left("Pod", "chat-0", "first")
    assert shown() == ["Scheduled"], "a late word of the first changes nothing"
