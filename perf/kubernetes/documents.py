"""What the API server of a large cluster says: Nodes and Pods as recorded ones are, by the thousand.

A page of a list is made once and told again under other names: what that costs is counted, and is not ours.
"""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kube.transport import ApiCall, ApiReply

Object = dict[str, Any]
PAGE = 500
MARK, TENTH = "@@@@@", "#####"
"""In a page's text, of which the number of the page takes the place, and a tenth of it."""
PODS_PER_NODE = 10
GPUS = 8
KUBELET_FIELDS = (
    "capacity",
    "allocatable",
    "conditions",
    "addresses",
    "nodeInfo",
    "images",
    "daemonEndpoints",
)
FEATURES = (
    "cpu-cpuid.AVX512F", "cpu-cpuid.AVX512VNNI", "cpu-cpuid.AMXBF16", "cpu-hardware_multithreading",
    "kernel-version.full", "kernel-version.major", "kernel-version.minor", "memory-numa",
    "network-sriov.capable",
    "pci-10de.present", "pci-15b3.present", "storage-nonrotationaldisk", "system-os_release.ID",
    "system-os_release.VERSION_ID", "rdma.available", "rdma.capable",
)  # fmt: skip
NVIDIA = {
    "gpu.count": "8", "gpu.family": "hopper", "gpu.machine": "DGXH100", "gpu.memory": "81559",
    "gpu.present": "true", "gpu.product": "NVIDIA-H100-80GB-HBM3", "gpu.replicas": "1", "mig.capable": "true",
    "cuda.driver.major": "570", "cuda.driver.minor": "86", "cuda.driver.rev": "15",
    "cuda.runtime.major": "12",
    "gpu.compute.major": "9", "gpu.compute.minor": "0", "gfd.timestamp": "1771747938", "mig.strategy": "none",
    "gpu.deploy.dcgm": "true", "gpu.deploy.driver": "true", "gpu.deploy.mig-manager": "true",
}  # fmt: skip

STATES = {"MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False", "Ready": "True"}
MANY = ",".join(FEATURES)


def node(name: str, uid: str, zone: int) -> Object:
    """Some 13 KB, as of a machine with device plugin, feature discovery and forty images."""
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "gpu8.h100",
        "topology.kubernetes.io/region": "eu-1",
        "topology.kubernetes.io/zone": f"eu-1{'abc'[zone % 3]}",
    }
    labels |= {f"feature.node.kubernetes.io/{one}": "true" for one in FEATURES}
    labels |= {f"nvidia.com/{key}": value for key, value in NVIDIA.items()}
    amounts = {"cpu": "192", "memory": "2063879Mi", "nvidia.com/gpu": str(GPUS), "pods": "110"}
    amounts |= {"ephemeral-storage": "3750738264Ki", "hugepages-2Mi": "0", "rdma/hca": "8"}
    conditions = [
        {
            "type": kind,
            "status": status,
            "lastHeartbeatTime": "2026-11-22T08:52:18Z",
            "lastTransitionTime": "2026-11-20T08:52:18Z",
            "reason": f"Kubelet{kind}",
            "message": f"the kubelet tells {kind}, and has nothing to say against it",
        }
        for kind, status in STATES.items()
    ]
    images = [
        {
            "names": [f"registry.example/team/image-{number}@sha256:{number:064x}"],
            "sizeBytes": 10_000_000 * (number + 1),
        }
        for number in range(40)
    ]
    return {
        "metadata": {
            "name": name,
            "uid": uid,
            "resourceVersion": "1000",
            "creationTimestamp": "2026-11-20T08:52:18Z",
            "labels": labels,
            "annotations": {
                "node.alpha.kubernetes.io/ttl": "0",
                "nfd.node.kubernetes.io/feature-labels": MANY,
            },
            "managedFields": managed(
                {"metadata": {"labels": labels}, "status": dict.fromkeys(KUBELET_FIELDS)}
            ),
        },
        "spec": {
            "providerID": f"cloud://eu-1/{name}",
            "podCIDR": "10.1.0.0/24",
            "taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}],
        },
        "status": {
            "capacity": amounts,
            "allocatable": amounts | {"cpu": "190"},
            "conditions": conditions,
            "addresses": [
                {"type": "InternalIP", "address": "10.0.3.17"},
                {"type": "Hostname", "address": name},
            ],
            "nodeInfo": {
                "bootID": uid,
                "kubeletVersion": "v1.36.2",
                "osImage": "Ubuntu 24.04.3 LTS",
                "kernelVersion": "6.8.0-60-generic",
                "containerRuntimeVersion": "containerd://2.1.4",
            },
            "images": images,
        },
    }


def pod(name: str, uid: str, node: str, number: int) -> Object:
    """Some 6 KB; half of them ask for GPUs, one in ten is a worker of Slipway."""
    labels = {"app.kubernetes.io/name": f"app-{number % 50}", "pod-template-hash": "6cf75f8b65"}
    if number % 10 == 0:
        labels |= {"slipway.io/deployment": f"chat-{number % 40}"}
    limits = {"cpu": "8", "memory": "64Gi"} | ({"nvidia.com/gpu": "1"} if number % 2 else {})
    container = {
        "name": "server",
        "image": "registry.example/team/server@sha256:" + "ab" * 32,
        "command": ["python", "-m", "server", "--port", "8000", "--model", "/models/chat"],
        "ports": [{"name": "http", "containerPort": 8000, "protocol": "TCP"}],
        "env": [{"name": f"SETTING_{one}", "value": f"value of the setting {one}"} for one in range(20)],
        "resources": {"limits": limits, "requests": limits},
        "volumeMounts": [
            {"name": f"volume-{one}", "mountPath": f"/mnt/volume-{one}", "readOnly": True} for one in range(4)
        ],
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": "http", "scheme": "HTTP"}},
        "terminationMessagePath": "/dev/termination-log",
        "imagePullPolicy": "IfNotPresent",
    }
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    return {
        "metadata": {
            "name": name,
            "namespace": f"team-{number % 20}",
            "uid": uid,
            "resourceVersion": "1000",
            "creationTimestamp": "2026-11-22T08:52:18Z",
            "labels": labels,
            "ownerReferences": [{"kind": "ReplicaSet", "name": name[:-6], "uid": uid, "controller": True}],
            "managedFields": managed({"metadata": {"labels": labels}, "spec": container, "status": {}}),
        },
        "spec": {
            "containers": [container],
            "nodeName": node,
            "priority": 0,
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
            "volumes": [{"name": f"volume-{one}", "emptyDir": {}} for one in range(4)],
        },
        "status": {
            "phase": "Running",
            "podIP": "10.1.3.17",
            "conditions": [
                {"type": one, "status": "True", "lastTransitionTime": "2026-11-22T08:52:18Z"} for one in kinds
            ],
            "containerStatuses": [
                {
                    "name": "server",
                    "ready": True,
                    "restartCount": 0,
                    "imageID": "registry.example/team/server@sha256:" + "ab" * 32,
                    "containerID": "containerd://" + "cd" * 32,
                    "state": {"running": {"startedAt": "2026-11-22T08:52:18Z"}},
                    "lastState": {},
                }
            ],
        },
    }


def managed(owned: Object) -> list[Object]:
    def fields(value: Any) -> Object:
        if not isinstance(value, dict):
            return {}
        return {f"f:{key}": fields(one) for key, one in value.items()} | {".": {}}

    entry = {
        "operation": "Update",
        "apiVersion": "v1",
        "time": "2026-11-22T08:52:18Z",
        "fieldsType": "FieldsV1",
    }
    return [entry | {"manager": "kubelet", "fieldsV1": fields(owned)}]


class LargeListServer:
    """A transport: lists of so many machines, each with `PODS_PER_NODE` pods, and a watch of `events`."""

    def __init__(self, nodes: int) -> None:
        self.counts = {"nodes": nodes, "pods": nodes * PODS_PER_NODE}
        self.seconds = 0.0
        """Own CPU of telling all this."""
        self.bytes = 0
        self.events: list[bytes] = []
        self._pages: dict[tuple[str, int], bytes] = {}
        for kind, count in self.counts.items():
            for items in {min(PAGE, count), count % PAGE or PAGE}:
                make = node_at if kind == "nodes" else pod_at
                self._pages[kind, items] = _joined([make(number) for number in range(items)])

    def send(self, call: ApiCall) -> ApiReply:
        began = time.process_time()
        kind = call.path.rpartition("/")[2]
        number = int(call.query.get("continue") or 0)
        left = self.counts[kind] - PAGE * number
        more = str(number + 1) if left > PAGE else ""
        body = self._pages[kind, min(PAGE, left)].replace(b"@MORE", more.encode())
        for mark, value in ((MARK, number), (TENTH, number // PODS_PER_NODE)):
            body = body.replace(mark.encode(), b"%05d" % value)
        self.bytes += len(body)
        self.seconds += time.process_time() - began
        return ApiReply(200, {}, body)

    @contextmanager
    def stream(self, call: ApiCall) -> Iterator[tuple[ApiReply, Iterator[bytes]]]:
        del call
        events, self.events = self.events, []
        yield ApiReply(200, {}, b""), iter(events)

    def close(self) -> None:
        pass


def node_at(number: int) -> Object:
    return node(f"gpu-{MARK}-{number:03}", f"{number:08x}-0000-4000-8000-0000000{MARK}", number)


def pod_at(number: int) -> Object:
    """Ten pages of pods have a pod each for every machine of one page of machines."""
    uid = f"{number:08x}-1111-4000-8000-0000000{MARK}"
    return pod(f"app-{number % 50}-6cf75f8b65-{MARK}{number:03}", uid, f"gpu-{TENTH}-{number:03}", number)


def event(item: Object, version: int) -> bytes:
    """A change of that object of the first page, as a watch tells it."""
    metadata = item["metadata"] | {"resourceVersion": str(version)}
    text = json.dumps({"type": "MODIFIED", "object": item | {"metadata": metadata}})
    return text.replace(MARK, "00000").replace(TENTH, "00000").encode()


def _joined(items: list[Object]) -> bytes:
    metadata = {"resourceVersion": "1000", "continue": "@MORE"}
    return json.dumps({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items}).encode()
