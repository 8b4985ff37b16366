"""The kinds of objects that the fake knows, and how the API server treats each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kube.fake.causes import StatusCause
from kube.fake.schema import FieldSchema, shape_of

Rules = Callable[[dict[str, Any], dict[str, Any] | None], list[StatusCause]]

NO_FIELDS: frozenset[str] = frozenset()


@dataclass(frozen=True)
class ObjectKind:
    group: str
    version: str
    kind: str
    plural: str
    is_namespaced: bool = True
    shape: FieldSchema = field(default_factory=lambda: FieldSchema("any"), compare=False, repr=False)
    subresources: frozenset[str] = NO_FIELDS
    has_generation: bool = False
    creates_on_update: bool = False
    demands_resource_version: bool = False
    """Of a PUT."""
    is_custom: bool = False
    selectable: frozenset[str] = NO_FIELDS
    """By a field selector, beside name and namespace."""
    orphans_by_default: bool = False
    status_keeps: frozenset[str] = frozenset({"annotations"})
    """What of the metadata may be written through /status."""
    short: str = "DNS subdomain"
    """What its names must be."""
    openapi: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """Of a custom resource's definition."""
    rules: "Rules | None" = field(default=None, compare=False, repr=False)
    """What the definition says in CEL."""
    also_served: frozenset[str] = NO_FIELDS
    """Other versions of the group that give the same objects."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """Return the name in errors: `deployments.apps`, `pods`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def qualified(self) -> str:
        """`Deployment.apps`, `Pod`."""
        return f"{self.kind}.{self.group}" if self.group else self.kind

    @property
    def list_kind(self) -> str:
        return f"{self.kind}List"


STATUS = frozenset({"status"})
SCALED = frozenset({"status", "scale"})


def _core(kind: str, plural: str, **more: object) -> ObjectKind:
    made = ObjectKind("", "v1", kind, plural, shape=shape_of(f"V1{kind}"))
    return replace(made, **more)  # type: ignore[arg-type]


def _of(group: str, kind: str, plural: str, **more: object) -> ObjectKind:
    made = ObjectKind(group, "v1", kind, plural, shape=shape_of(f"V1{kind}"))
    return replace(made, **more)  # type: ignore[arg-type]


RBAC = "rbac.authorization.k8s.io"
EVENT_FIELDS = frozenset(
    {
        "involvedObject.name",
        "involvedObject.kind",
        "involvedObject.uid",
        "involvedObject.namespace",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    }
)
POD_FIELDS = frozenset(
    {
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    }
)
LABELLED_STATUS = frozenset({"annotations", "labels", "finalizers"})

BUILT_IN: tuple[ObjectKind, ...] = (
    _core("ConfigMap", "configmaps"),
    _core("Secret", "secrets", selectable=frozenset({"type"})),
    _core("ServiceAccount", "serviceaccounts", subresources=frozenset({"token"})),
    _core("Service", "services", subresources=STATUS, creates_on_update=True, short="DNS label"),
    _core(
        "Pod",
        "pods",
        subresources=frozenset({"status", "eviction", "log", "binding"}),
        has_generation=True,
        selectable=POD_FIELDS,
        status_keeps=LABELLED_STATUS,
    ),
    _core(
        "Node",
        "nodes",
        is_namespaced=False,
        subresources=STATUS,
        selectable=frozenset({"spec.unschedulable"}),
        status_keeps=LABELLED_STATUS,
    ),
    _core(
        "Namespace",
        "namespaces",
        is_namespaced=False,
        subresources=frozenset({"status", "finalize"}),
        selectable=frozenset({"status.phase"}),
        short="DNS label",
    ),
    _core("ResourceQuota", "resourcequotas", subresources=STATUS),
    _core("LimitRange", "limitranges"),
    _core("PersistentVolumeClaim", "persistentvolumeclaims", subresources=STATUS),
    ObjectKind(
        "",
        "v1",
        "Event",
        "events",
        shape=shape_of("CoreV1Event"),
        creates_on_update=True,
        selectable=EVENT_FIELDS,
    ),
    _of("apps", "Deployment", "deployments", subresources=SCALED, has_generation=True),
    _of(
        "apps",
        "ReplicaSet",
        "replicasets",
        subresources=SCALED,
        has_generation=True,
        selectable=frozenset({"status.replicas"}),
    ),
    _of("apps", "StatefulSet", "statefulsets", subresources=SCALED, has_generation=True),
    _of("apps", "DaemonSet", "daemonsets", subresources=STATUS, has_generation=True),
    ObjectKind(
        "autoscaling",
        "v2",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        shape=shape_of("V2HorizontalPodAutoscaler"),
        subresources=STATUS,
    ),
    _of(
        "batch",
        "Job",
        "jobs",
        subresources=STATUS,
        has_generation=True,
        orphans_by_default=True,
        selectable=frozenset({"status.successful"}),
    ),
    _of(
        "coordination.k8s.io",
        "Lease",
        "leases",
        creates_on_update=True,
        demands_resource_version=True,
    ),
    _of("networking.k8s.io", "Ingress", "ingresses", subresources=STATUS, has_generation=True),
    _of("networking.k8s.io", "NetworkPolicy", "networkpolicies", has_generation=True),
    _of("policy", "PodDisruptionBudget", "poddisruptionbudgets", subresources=STATUS, has_generation=True),
    _of("resource.k8s.io", "DeviceClass", "deviceclasses", is_namespaced=False, has_generation=True),
    ObjectKind(
        "resource.k8s.io",
        "v1",
        "ResourceClaim",
        "resourceclaims",
        shape=shape_of("ResourceV1ResourceClaim"),
        subresources=STATUS,
    ),
    _of("resource.k8s.io", "ResourceClaimTemplate", "resourceclaimtemplates"),
    _of(
        "resource.k8s.io",
        "ResourceSlice",
        "resourceslices",
        is_namespaced=False,
        has_generation=True,
        selectable=frozenset({"spec.driver", "spec.nodeName"}),
    ),
    _of("scheduling.k8s.io", "PriorityClass", "priorityclasses", is_namespaced=False, has_generation=True),
    ObjectKind("storage.k8s.io", "v1", "StorageClass", "storageclasses", is_namespaced=False),
    _of(RBAC, "Role", "roles"),
    _of(RBAC, "RoleBinding", "rolebindings"),
    _of(RBAC, "ClusterRole", "clusterroles", is_namespaced=False),
    _of(RBAC, "ClusterRoleBinding", "clusterrolebindings", is_namespaced=False),
)
