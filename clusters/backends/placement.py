"""On what kind of machine workers may stand, and what is set aside for them there."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf

from clusters.backends.gpu_names import NVIDIA
from clusters.backends.labels import label_faults


class TaintEffect(StrEnum):
    """The effect of a taint, as in Kubernetes."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


@dataclass(frozen=True, slots=True, order=True)
class Taint:
    """Keeps workers that do not tolerate it off a machine."""

    key: str
    effect: TaintEffect
    value: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    """A toleration as in Kubernetes: an empty key tolerates every key, no effect every effect, no value every
    value.
    """

    key: str = ""
    effect: TaintEffect | None = None
    value: str | None = None
    seconds: int | None = None
    """How long after a taint NoExecute a worker may stay; None: for ever."""

    def covers(self, taint: Taint) -> bool:
        return (
            self.key in ("", taint.key)
            and self.effect in (None, taint.effect)
            and self.value in (None, taint.value)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Workers stand evenly over the values that a label of machines has, to within `max_skew`."""

    topology_key: str
    max_skew: int = 1
    is_required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """Set aside for each worker; 0: as much as there is."""

    gpus: int = 1
    """Where there are any, and the device is not `cpu`."""
    gpu_resource: str = NVIDIA
    """The name under which the cluster counts them, where it counts several."""
    cpus: float = 0.0
    cpu_limit: float = 0.0
    """The most that a worker may use at a time."""
    memory_bytes: int = 0
    memory_limit_bytes: int = 0
    """Beyond it a worker is killed; 0: what is set aside."""
    shared_memory_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The machines that workers may run on, and the account that pulls their image."""

    namespace: str = ""
    """Empty: the cluster's own choice."""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    """Labels that a machine must have."""
    tolerations: tuple[Toleration, ...] = ()
    spread: tuple[Spread, ...] = ()
    image_pull_secrets: tuple[str, ...] = ()
    """Names of secrets that the cluster has."""
    priority_class: str = ""
    runtime_class: str = ""
    """Empty: the cluster's own choice."""


@dataclass(frozen=True, slots=True)
class SecretKey:
    """An entry of a secret of the cluster."""

    secret: str
    key: str


def faults_of(resources: Resources) -> list[str]:
    return [
        f"{name} must not be negative"
        for name in (
            "gpus",
            "cpus",
            "cpu_limit",
            "memory_bytes",
            "memory_limit_bytes",
            "shared_memory_bytes",
        )
        if not 0 <= getattr(resources, name) < inf
    ]


def faults_in(placement: Placement) -> list[str]:
    faults = label_faults("node_selector", placement.node_selector)
    faults += [
        f"max_skew of {one.topology_key} must be 1 or more" for one in placement.spread if one.max_skew < 1
    ]
    return faults
