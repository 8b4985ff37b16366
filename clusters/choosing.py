"""The choice of a cluster by a rule, with reasons for and against each. Pure: no clock, no I/O.

The words are kept beside the choice, which has many readers: they are English.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Self

from clusters.backends.gpu_names import NVIDIA, is_slice
from clusters.states import ClusterState

FRESH = timedelta(minutes=5)
"""What was seen of a cluster longer ago decides nothing."""
USABLE = frozenset({ClusterState.READY, ClusterState.WARNING})


@dataclass(frozen=True, slots=True)
class ClusterRequirements:
    """Demands on a cluster; an empty one demands nothing."""

    labels: Mapping[str, str] = field(default_factory=dict)
    region: str = ""
    provider: str = ""
    gpu: str = ""
    """A part of the name of its GPUs, in whatever case: `H100`."""
    free_gpus: int = 0
    """So many of those GPUs that no worker has."""
    gpu_resource: str = ""
    """The name under which a cluster counts them: `nvidia.com/mig-1g.10gb`. Empty: whole ones, and slices
    where `gpu` says MIG."""

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Self:
        return cls(**dict(data))

    def to_dict(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if value}


def with_resource(rule: ClusterRequirements, wanted: object) -> ClusterRequirements:
    """Fill in the GPU resource from the worker's request where the rule has none."""
    return rule if rule.gpu_resource or not isinstance(wanted, str) else replace(rule, gpu_resource=wanted)


@dataclass(frozen=True, slots=True)
class OfferedGpus:
    name: str
    free: int
    total: int
    resource: str = ""
    """The name under which the cluster counts them; empty: it has no names."""


@dataclass(frozen=True, slots=True)
class EligibleCluster:
    name: str
    state: ClusterState
    region: str = ""
    provider: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    gpus: Sequence[OfferedGpus] = ()
    """Of machines that take workers, by name."""
    seen_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ClusterAssessment:
    """A cluster with the reasons for and against it."""

    cluster: str
    fits: bool
    says: str


@dataclass(frozen=True, slots=True)
class ClusterChoice:
    cluster: str
    """Empty: none fits."""
    considered: Sequence[ClusterAssessment]
    """The chosen one first, then those that fit, then the others; by name."""

    def to_list(self) -> list[dict[str, Any]]:
        return [asdict(one) for one in self.considered]


def choose(
    candidates: Iterable[EligibleCluster], rule: ClusterRequirements, *, now: datetime
) -> ClusterChoice:
    """Choose among the fitting clusters the one with the most free GPUs of the kind; of equals the first by
    name.
    """
    judged = [(one, _against(one, rule, now=now)) for one in candidates]
    fitting = sorted(
        (one for one, against in judged if not against), key=lambda one: (-_free(one, rule), one.name)
    )
    chosen = fitting[0].name if fitting else ""
    considered = [
        ClusterAssessment(one.name, True, _for(one, rule, is_chosen=one.name == chosen)) for one in fitting
    ]
    considered += [
        ClusterAssessment(one.name, False, " ".join(against))
        for one, against in sorted(judged, key=lambda pair: pair[0].name)
        if against
    ]
    return ClusterChoice(chosen, considered)


def _against(one: EligibleCluster, rule: ClusterRequirements, *, now: datetime) -> list[str]:
    found = []
    if one.state not in USABLE:
        found.append(f"It is {one.state.value.replace('_', ' ')}.")
    elif one.seen_at is None or now - one.seen_at > FRESH:
        found.append("It was not seen for a while.")
    for name in ("region", "provider"):
        wanted, has = getattr(rule, name), getattr(one, name)
        if wanted and has != wanted:
            found.append(f"Its {name} is {has or 'not said'}, not {wanted}.")
    for key, value in rule.labels.items():
        if one.labels.get(key) != value:
            found.append(f"It has no label {key}={value}.")
    if rule.gpu and not _of_kind(one, rule):
        found.append(f"It has no {rule.gpu}.{_others(one, rule)}")
    elif rule.gpu_resource and not _of_kind(one, rule):
        found.append(f"It has no {rule.gpu_resource}.{_others(one, rule)}")
    elif _free(one, rule) < rule.free_gpus:
        found.append(f"It has {_free(one, rule)} {_kind(rule)} free, of {rule.free_gpus} wanted.")
    return found


def _for(one: EligibleCluster, rule: ClusterRequirements, *, is_chosen: bool) -> str:
    what = f"{_free(one, rule)} {_kind(rule)} are free there"
    return f"It fits, and {what}{': the most' if is_chosen else ''}."


def _others(one: EligibleCluster, rule: ClusterRequirements) -> str:
    """Return the GPUs that the cluster has instead of those requested."""
    names = sorted({gpus.resource for gpus in one.gpus if gpus.resource and gpus.total})
    return f" It has {', '.join(names)}." if rule.gpu_resource and names else ""


def _kind(rule: ClusterRequirements) -> str:
    what = rule.gpu_resource or "GPUs"
    return f"{what} of {rule.gpu}" if rule.gpu_resource and rule.gpu else f"{what} {rule.gpu}".strip()


def _of_kind(one: EligibleCluster, rule: ClusterRequirements) -> list[OfferedGpus]:
    return [
        gpus
        for gpus in one.gpus
        if rule.gpu.lower() in gpus.name.lower() and _is_counted(gpus.resource, rule)
    ]


def _is_counted(resource: str, rule: ClusterRequirements) -> bool:
    if rule.gpu_resource:
        return resource == rule.gpu_resource or (not resource and rule.gpu_resource == NVIDIA)
    return not is_slice(resource) or "mig" in rule.gpu.lower()


def _free(one: EligibleCluster, rule: ClusterRequirements) -> int:
    return sum(gpus.free for gpus in _of_kind(one, rule))
