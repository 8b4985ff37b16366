"""The rights that Slipway needs in a Kubernetes cluster, and what does not work without them: one table.

The checks of a cluster ask each of them; the manifest that an administrator applies grants exactly these.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from clusters.backends.kubernetes.settings import RELAY
from kube.resources import (
    CLUSTER_QUEUES,
    COHORTS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    EVENTS,
    GATEWAY_CLASSES,
    GATEWAYS,
    HTTP_ROUTES,
    INFERENCE_POOLS,
    JOBS,
    LEADER_WORKER_SETS,
    LOCAL_QUEUES,
    NAMESPACES,
    NODES,
    PODS,
    RAY_JOBS,
    RAY_SERVICES,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_FLAVORS,
    RESOURCE_SLICES,
    SECRETS,
    SERVICES,
    STORAGE_CLASSES,
    TOPOLOGIES,
    VOLUME_CLAIMS,
    WORKLOAD_PRIORITIES,
    WORKLOADS,
    Resource,
)


class Feature(StrEnum):
    """A feature that an administrator may grant or leave out; all others rest on the first two."""

    INVENTORY = "inventory"
    """Machines, GPUs, and why pods do not run."""
    SERVING = "serving"
    """Deployments of model workers."""
    CAPACITY = "capacity"
    """What pods of other namespaces take of the GPUs, and what happened to them."""
    NODE_OPERATIONS = "node-operations"
    """Cordon and taint of machines."""
    DRAIN = "drain"
    """Drain of machines: pods of all namespaces are read and evicted."""
    FORCED_DRAIN = "forced-drain"
    """Drains that pass over disruption budgets, when a person says so: pods of all namespaces are deleted."""
    CHECKPOINTS = "checkpoints"
    """Pods of all namespaces that want it are told to write a checkpoint before a drain evicts them. The API
    knows no lesser right for that than to change pods."""
    GATEWAY = "gateway"
    """Traffic by HTTPRoutes of a Gateway of the cluster."""
    INFERENCE = "inference"
    """InferencePools that the Gateway's routes lead to."""
    GROUPS = "groups"
    """Workers that span machines, by LeaderWorkerSets."""
    GRAPHS = "graphs"
    """Task graphs on Ray, by KubeRay's objects."""
    QUEUES = "queues"
    """Quotas of pools that Kueue admits workloads by."""
    DEVICES = "devices"
    """GPUs that pods claim in parts (DRA): what there is, who has it, and templates of claims."""
    JOBS = "jobs"
    """Model files filled by a Job; checks and repairs of machines."""
    CHECKS = "checks"
    """Reading of namespaces, volume claims, storage and gateway classes, to say what is missing."""


NEEDED = (Feature.INVENTORY, Feature.SERVING)


@dataclass(frozen=True, slots=True)
class NeededRight:
    feature: Feature
    resource: Resource
    verbs: tuple[str, ...]
    without: str
    """What does not work then, in words."""
    subresource: str = ""
    is_everywhere: bool = False
    """In all namespaces, and not in those of the workers alone."""
    names: tuple[str, ...] = ()
    """Of the objects that it holds for; empty: for all."""

    @property
    def kind(self) -> str:
        """Return the objects as a role's rule names them: `pods`, `pods/log`."""
        return f"{self.resource.plural}/{self.subresource}" if self.subresource else self.resource.plural

    @property
    def name(self) -> str:
        """`read nodes`, `patch nodes`: no two of the table are called the same."""
        where = " of all namespaces" if self.is_everywhere else ""
        which = f" {', '.join(self.names)}" if self.names else ""
        return f"{_ALL_AT_ONCE.get(self.verbs) or ', '.join(self.verbs)} {self.kind}{which}{where}"

    @property
    def is_cluster_wide(self) -> bool:
        return self.is_everywhere or not self.resource.is_namespaced


FEATURES = "slipway-features"
"""The ConfigMap of the manifest that says what was granted: what it does not name was left out on purpose."""
NO_DRAIN = "Machines cannot be drained from here."
READ = ("get", "list", "watch")
APPLY = ("get", "create", "patch")
KEEP = ("get", "list", "create", "patch", "delete")
_ALL_AT_ONCE: Mapping[tuple[str, ...], str] = {READ: "read", APPLY: "write", KEEP: "write"}

RIGHTS: Sequence[NeededRight] = (
    NeededRight(Feature.INVENTORY, NODES, READ, "The machines and their GPUs are not known."),
    NeededRight(Feature.INVENTORY, PODS, READ, "What runs is not seen, so that nothing can be released."),
    NeededRight(Feature.INVENTORY, PODS, ("get",), "Workers' logs cannot be read.", "log"),
    NeededRight(Feature.INVENTORY, EVENTS, ("list", "watch"), "Why a pod does not run is told less well."),
    NeededRight(
        Feature.CAPACITY, PODS, ("list", "watch"), "GPUs that others use count as free.", is_everywhere=True
    ),
    NeededRight(
        Feature.CAPACITY,
        EVENTS,
        ("list", "watch"),
        "What happened to machines and to others' pods is not told.",
        is_everywhere=True,
    ),
    NeededRight(Feature.SERVING, DEPLOYMENTS, APPLY, "No worker can be started."),
    NeededRight(Feature.SERVING, SERVICES, APPLY, "Workers get no address in the cluster."),
    NeededRight(Feature.SERVING, CONFIG_MAPS, KEEP, "Nothing guards against a writer that wakes up late."),
    NeededRight(
        Feature.SERVING, DISRUPTION_BUDGETS, APPLY, "Drains of machines may take all workers at once."
    ),
    NeededRight(Feature.SERVING, SECRETS, APPLY, "Workers get no token to report with."),
    *(
        NeededRight(
            Feature.SERVING, resource, ("delete",), "A relay that is no longer wanted stays.", names=(RELAY,)
        )
        for resource in (DEPLOYMENTS, SERVICES, SECRETS)
    ),
    NeededRight(Feature.GROUPS, LEADER_WORKER_SETS, APPLY, "Workers cannot span machines."),
    NeededRight(
        Feature.NODE_OPERATIONS, NODES, ("patch",), "Machines cannot be cordoned or tainted from here."
    ),
    NeededRight(Feature.DRAIN, PODS, ("get", "list"), NO_DRAIN, is_everywhere=True),
    NeededRight(Feature.DRAIN, DISRUPTION_BUDGETS, ("list",), NO_DRAIN, is_everywhere=True),
    NeededRight(Feature.DRAIN, PODS, ("create",), NO_DRAIN, "eviction", is_everywhere=True),
    NeededRight(
        Feature.DRAIN,
        PODS,
        ("patch",),
        "Workers that others stand in for before a drain are not always those that end.",
    ),
    NeededRight(
        Feature.FORCED_DRAIN,
        PODS,
        ("delete",),
        "Drains that pass over disruption budgets are refused.",
        is_everywhere=True,
    ),
    NeededRight(
        Feature.CHECKPOINTS,
        PODS,
        ("patch",),
        "Pods are not asked for a checkpoint before they are evicted.",
        is_everywhere=True,
    ),
    NeededRight(Feature.GATEWAY, HTTP_ROUTES, KEEP, "Traffic cannot be split by the cluster's own gateway."),
    # Most Gateways stand in a namespace of their own.
    NeededRight(
        Feature.GATEWAY,
        GATEWAYS,
        ("get",),
        "Whether a gateway takes our routes is not known.",
        is_everywhere=True,
    ),
    NeededRight(Feature.GATEWAY, GATEWAY_CLASSES, ("get",), "What a gateway supports is not known."),
    NeededRight(
        Feature.INFERENCE,
        INFERENCE_POOLS,
        KEEP,
        "Routes of the cluster's own gateway lead to Services, not to InferencePools.",
    ),
    NeededRight(Feature.GRAPHS, RAY_JOBS, KEEP, "Task graphs cannot be run over many items there."),
    NeededRight(Feature.GRAPHS, RAY_SERVICES, KEEP, "Task graphs cannot be served there by Ray."),
    NeededRight(Feature.GRAPHS, LOCAL_QUEUES, ("get", "list"), "Queues of Kueue cannot be checked."),
    NeededRight(Feature.GRAPHS, WORKLOADS, ("list",), "Why a task graph waits in its queue is not known."),
    *(
        NeededRight(
            Feature.QUEUES,
            resource,
            ("list", "create", "patch", "delete"),
            "Pools cannot leave it to Kueue to admit workloads.",
        )
        for resource in (CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES, RESOURCE_FLAVORS, TOPOLOGIES)
    ),
    NeededRight(Feature.QUEUES, CLUSTER_QUEUES, ("get",), "What Kueue says of a pool is not known."),
    NeededRight(
        Feature.QUEUES, WORKLOAD_PRIORITIES, ("create", "patch"), "Workloads get no priority in Kueue."
    ),
    NeededRight(Feature.QUEUES, WORKLOADS, ("list",), "Why a workload waits in Kueue is not known."),
    NeededRight(
        Feature.DEVICES, RESOURCE_SLICES, ("list",), "GPUs that a driver offers by claims are not known."
    ),
    NeededRight(
        Feature.DEVICES,
        RESOURCE_CLAIMS,
        ("list",),
        "Who has which part of a GPU is not known.",
        is_everywhere=True,
    ),
    NeededRight(
        Feature.DEVICES,
        RESOURCE_CLAIM_TEMPLATES,
        ("get", "create", "patch", "delete"),
        "Workers and layouts get no part of a GPU by a claim.",
    ),
    NeededRight(Feature.JOBS, VOLUME_CLAIMS, KEEP, "Versions get no volume claims of their own."),
    NeededRight(Feature.JOBS, JOBS, KEEP, "Volumes are not filled, and GPUs not checked, by Slipway."),
    NeededRight(Feature.CHECKS, NAMESPACES, ("get",), "Whether the namespaces are there is not known."),
    NeededRight(
        Feature.CHECKS, VOLUME_CLAIMS, ("get",), "Whether the volume of the models is there is not known."
    ),
    NeededRight(Feature.CHECKS, STORAGE_CLASSES, ("list",), "Which storage classes there are is not known."),
    NeededRight(Feature.CHECKS, GATEWAY_CLASSES, ("list",), "What its gateways can do is not known."),
)


def manifest(
    *, namespace: str, features: Iterable[Feature] = tuple(Feature), account: str = "slipway"
) -> list[dict[str, Any]]:
    """The least that Slipway needs for these: namespace, service account with a token, roles and bindings.

    Rights on what lies in namespaces hold in `namespace` alone. It is part of the names of what lies in none:
    the documents of another installation must not replace them.
    """
    wanted = {*NEEDED, *features}
    subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    inside = {"namespace": namespace}
    documents: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account, **inside}},
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/service-account-token",
            "metadata": {
                "name": f"{account}-token",
                **inside,
                "annotations": {"kubernetes.io/service-account.name": account},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": FEATURES, **inside},
            "data": {"features": ",".join(one for one in Feature if one in wanted)},
        },
    ]
    for role, binding, place, is_wide in (
        ("ClusterRole", "ClusterRoleBinding", {}, True),
        ("Role", "RoleBinding", inside, False),
    ):
        rules = _rules(
            right for right in RIGHTS if right.feature in wanted and right.is_cluster_wide == is_wide
        )
        if not rules:
            continue
        name = f"{account}-{namespace}" if is_wide else account
        documents += [
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": role,
                "metadata": {"name": name, **place},
                "rules": rules,
            },
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": binding,
                "metadata": {"name": name, **place},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": name},
                "subjects": [subject],
            },
        ]
    return documents


def granted_features(config_map: Mapping[str, Any] | None) -> frozenset[Feature]:
    """Return the features named in the manifest's ConfigMap; all, where there is none."""
    if config_map is None:
        return frozenset(Feature)
    named = str((config_map.get("data") or {}).get("features", "")).split(",")
    return frozenset(NEEDED) | {one for one in Feature if one in named}


def _rules(rights: Iterable[NeededRight]) -> list[dict[str, Any]]:
    """Return one rule per resource and its names, with all verbs."""
    verbs: dict[tuple[str, str, tuple[str, ...]], dict[str, None]] = {}
    for right in rights:
        verbs.setdefault((right.resource.group, right.kind, right.names), {}).update(
            dict.fromkeys(right.verbs)
        )
    return [
        {"apiGroups": [group], "resources": [kind], "verbs": list(wanted)}
        | ({"resourceNames": list(names)} if names else {})
        for (group, kind, names), wanted in verbs.items()
    ]
