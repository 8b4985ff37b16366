"""Pods on a machine, ours and others', in our words."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class PodPhase(StrEnum):
    """The phase of a pod, as in Kubernetes."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """The number of pods of a kind that may be missing (a PodDisruptionBudget in Kubernetes)."""

    name: str
    """`namespace/name` where there are namespaces."""
    allowed: int
    """How many evictions it allows at the moment."""
    healthy: int = 0
    desired: int = 0
    """Of its pods: ready ones, and those that must be."""


MOST_CHECKPOINT_SECONDS = 24 * 3600


@dataclass(frozen=True, slots=True)
class CheckpointRequest:
    """The pod wants to keep its work before it ends."""

    on_sigterm: bool = False
    """It does so when it is told to end, in its own time for that: nobody cuts that short."""
    seconds: int = 600
    """Otherwise it is asked first, and may take so long."""
    url: str = ""
    """A webhook is asked in its place, and again until it says so."""
    is_done: bool = False
    """It has said that what it was asked for last is written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedPod:
    """A pod, or on one machine a process, as it was read just now."""

    uid: str
    """Another one for whatever takes its place, also under the same name."""
    name: str
    namespace: str = ""
    node: str = ""
    """Name of its machine; empty: it has none yet."""
    phase: PodPhase = PodPhase.RUNNING
    owner: str = ""
    """What makes it anew elsewhere: `ReplicaSet chat-v2`; empty: nothing does."""
    deployment: str = ""
    """Of ours, by its name; empty: somebody else's."""
    gpus: Mapping[str, int] = field(default_factory=dict)
    """What it holds of GPUs, by the name under which the cluster counts them: `nvidia.com/gpu`."""
    may_hold_gpu: bool = False
    """It may have a GPU open that nobody counts: of a resource claim, a vGPU, or by its runtime."""
    is_daemon: bool = False
    """It belongs to every machine (a DaemonSet's) and comes back at once, cordon or not."""
    is_mirror: bool = False
    """Its machine runs it by itself (static): the API cannot end it."""
    is_leaving: bool = False
    """It was asked to end."""
    why: str = ""
    """Why it waits for a machine, in words; empty: it has one, or nobody has looked yet."""
    local_data: tuple[str, ...] = ()
    """Volumes whose content ends with it (emptyDir); not those of ours, which hold nothing to keep."""
    budgets: tuple[DisruptionBudget, ...] = ()
    checkpoint: CheckpointRequest | None = None
    """None: it does not ask for that."""
    grace_seconds: int | None = None
    """How long it may take to end; None: not known."""

    @property
    def title(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def gpu_count(self) -> int:
        return sum(self.gpus.values())

    @property
    def has_gpu(self) -> bool:
        """Also one that is not counted."""
        return bool(self.gpus) or self.may_hold_gpu

    @property
    def has_ended(self) -> bool:
        return self.phase in (PodPhase.SUCCEEDED, PodPhase.FAILED)


def packed(pod: ObservedPod) -> bytes:
    """Pack the pod's figures for another process, in some hundred bytes."""
    fields = [pod.name, pod.namespace, pod.node, pod.phase, pod.deployment, dict(pod.gpus), pod.why]
    return json.dumps(fields, ensure_ascii=False).encode()


def unpacked(uid: str, value: bytes) -> ObservedPod:
    name, namespace, node, phase, deployment, gpus, why = json.loads(value)
    return ObservedPod(
        uid=uid,
        name=name,
        namespace=namespace,
        node=node,
        phase=PodPhase(phase),
        deployment=deployment,
        gpus=gpus,
        why=why,
    )


@dataclass(frozen=True, slots=True)
class ObservedPods:
    """The pods of a cluster with the GPUs that they hold."""

    pods: tuple[ObservedPod, ...]
    problem: str = ""
    """What could not be seen of it, and why."""
    seen_at: datetime | None = None
    """None: just now."""
