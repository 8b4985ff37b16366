"""Schemas of fields: their values, and how their list or map is merged.

Which fields there are comes from `builtin_types.json`; how lists merge (keys, sets, atomic) is written
here, as
the types' `+listType` and `+listMapKey` markers say (kubernetes/api, release 1.36).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

_TYPES: dict[str, dict[str, str]] = json.loads(Path(__file__).with_name("builtin_types.json").read_text())

KEYED: dict[str, tuple[str, ...]] = {
    "V1ObjectMeta.ownerReferences": ("uid",),
    "V1PodSpec.containers": ("name",),
    "V1PodSpec.initContainers": ("name",),
    "V1PodSpec.ephemeralContainers": ("name",),
    "V1PodSpec.volumes": ("name",),
    "V1PodSpec.imagePullSecrets": ("name",),
    "V1PodSpec.hostAliases": ("ip",),
    "V1PodSpec.topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "V1PodSpec.schedulingGates": ("name",),
    "V1PodSpec.resourceClaims": ("name",),
    "V1Container.env": ("name",),
    "V1Container.ports": ("containerPort", "protocol"),
    "V1Container.volumeMounts": ("mountPath",),
    "V1Container.volumeDevices": ("devicePath",),
    "V1ResourceRequirements.claims": ("name",),
    "V1PodStatus.conditions": ("type",),
    "V1PodStatus.podIPs": ("ip",),
    "V1ServiceSpec.ports": ("port", "protocol"),
    "V1ServiceStatus.conditions": ("type",),
    "V1ServiceAccount.secrets": ("name",),
    "V1DeploymentStatus.conditions": ("type",),
    "V1ReplicaSetStatus.conditions": ("type",),
    "V1StatefulSetStatus.conditions": ("type",),
    "V1NamespaceStatus.conditions": ("type",),
    "V1NodeStatus.conditions": ("type",),
    "V1NodeStatus.addresses": ("type",),
    "V1PersistentVolumeClaimStatus.conditions": ("type",),
    "V1PodDisruptionBudgetStatus.conditions": ("type",),
    "V1PodStatus.resourceClaimStatuses": ("name",),
    "V1ResourceClaimStatus.reservedFor": ("uid",),
}
SETS = {"V1ObjectMeta.finalizers", "V1NodeSpec.podCIDRs"}
ATOMIC_TYPES = {
    "V1LabelSelector",
    "V1NodeSelector",
    "V1NodeSelectorTerm",
    "V1ObjectFieldSelector",
    "V1ResourceFieldSelector",
    "V1SecretKeySelector",
    "V1ConfigMapKeySelector",
    "V1LocalObjectReference",
    "V1ObjectReference",
    "V1OwnerReference",
    "V1SecretReference",
    "V1TypedLocalObjectReference",
    "V1RoleRef",
}
ATOMIC_MAPS = {"V1PodSpec.nodeSelector", "V1ServiceSpec.selector"}
MERGED_BY_STRATEGY: dict[str, str] = {
    # Where a strategic merge patch goes by another key than an apply, or by one where an apply is atomic.
    "V1Container.ports": "containerPort",
    "V1ServiceSpec.ports": "port",
    "V1PodSpec.topologySpreadConstraints": "topologyKey",
    "V1JobStatus.conditions": "type",
}
REPLACED_BY_STRATEGY = {"V1PodSpec.schedulingGates"}
KEY_DEFAULTS = {"protocol": "TCP"}
QUANTITIES = {
    "V1ResourceRequirements.limits",
    "V1ResourceRequirements.requests",
    "V1ResourceQuotaSpec.hard",
    "V1ResourceQuotaStatus.hard",
    "V1ResourceQuotaStatus.used",
    "V1NodeStatus.capacity",
    "V1NodeStatus.allocatable",
}
NUMBERED = {"maxSurge", "maxUnavailable", "minAvailable", "port", "targetPort"}
"""Int-or-string; the package calls them `object`."""


@dataclass(frozen=True)
class FieldSchema:
    """The schema of one field."""

    kind: str
    """`struct`, `map`, `list`, `any`, or the name of a scalar: string, integer, number, boolean, time,
    quantity.
    """
    name: str = ""
    """Of a struct's type."""
    fields: Mapping[str, "FieldSchema"] = field(default_factory=dict, compare=False, hash=False)
    item: "FieldSchema | None" = None
    keys: tuple[str, ...] = ()
    merge_key: str = ""
    """Of a strategic merge patch; empty: the list is replaced."""
    is_set: bool = False
    is_atomic: bool = False

    @property
    def is_leaf(self) -> bool:
        """Owned as a whole."""
        return self.is_atomic or self.kind not in ("struct", "map", "list")

    def child(self, name: str) -> "FieldSchema | None":
        """Return the schema of a field or key; None: there is none of this name."""
        if self.kind == "map":
            return self.item
        if self.kind == "struct":
            return self.fields.get(name)
        return ANY


ANY = FieldSchema("any")


class _Fields(dict[str, FieldSchema]):
    """Built when first asked for: types refer to themselves."""

    def __init__(self, owner: str, written: Mapping[str, str]) -> None:
        super().__init__()
        self._owner = owner
        self._written = written

    def get(self, name: str, default: Any = None) -> Any:
        if name not in self._written:
            return default
        if name not in self:
            self[name] = _shape(self._written[name], f"{self._owner}.{name}")
        return self[name]

    def names(self) -> set[str]:
        return set(self._written)


@cache
def shape_of(type_name: str) -> FieldSchema:
    """Return the schema of a built-in type, as `V1Deployment`."""
    written = _TYPES[type_name]
    return FieldSchema(
        "struct", type_name, fields=_Fields(type_name, written), is_atomic=type_name in ATOMIC_TYPES
    )


def _shape(written: str, place: str) -> FieldSchema:
    if written.startswith("[]"):
        keys = KEYED.get(place, ())
        is_set = place in SETS
        merge_key = MERGED_BY_STRATEGY.get(
            place, keys[0] if keys and place not in REPLACED_BY_STRATEGY else ""
        )
        item = _shape(written[2:], place + "[]")
        return FieldSchema(
            "list", item=item, keys=keys, merge_key=merge_key, is_set=is_set, is_atomic=not (keys or is_set)
        )
    if written.startswith("{}"):
        item = FieldSchema("quantity") if place in QUANTITIES else _shape(written[2:], place + "{}")
        return FieldSchema("map", item=item, is_atomic=place in ATOMIC_MAPS)
    if written in _TYPES:
        return shape_of(written)
    if written == "object" or written.startswith("V1"):
        return ANY
    return FieldSchema(written)


def of_definition(schema: Mapping[str, Any]) -> FieldSchema:
    """Return the schema of a whole custom resource, whose metadata is like that of all kinds."""
    shape = from_openapi(schema)
    plain = {
        "apiVersion": FieldSchema("string"),
        "kind": FieldSchema("string"),
        "metadata": shape_of("V1ObjectMeta"),
    }
    return FieldSchema("struct", "", fields={**shape.fields, **plain})


def from_openapi(schema: Mapping[str, Any]) -> FieldSchema:
    """Read `openAPIV3Schema` of a custom resource's definition, with its `x-kubernetes-*` marks."""
    kind = schema.get("type", "")
    if schema.get("x-kubernetes-preserve-unknown-fields") or schema.get("x-kubernetes-int-or-string"):
        return ANY
    if kind == "object":
        atomic = schema.get("x-kubernetes-map-type") == "atomic"
        if "properties" in schema:
            fields = {name: from_openapi(one) for name, one in schema["properties"].items()}
            return FieldSchema("struct", "", fields=fields, is_atomic=atomic)
        inside = schema.get("additionalProperties")
        return FieldSchema(
            "map", item=from_openapi(inside) if isinstance(inside, dict) else ANY, is_atomic=atomic
        )
    if kind == "array":
        keys = tuple(sorted(schema.get("x-kubernetes-list-map-keys", ())))
        is_set = schema.get("x-kubernetes-list-type") == "set"
        return FieldSchema(
            "list",
            item=from_openapi(schema["items"]),
            keys=keys,
            is_set=is_set,
            is_atomic=not (keys or is_set),
        )
    return FieldSchema(kind) if kind else ANY
