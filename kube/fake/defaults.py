"""Defaults that the API server fills in when it reads a body, or leaves out when it writes one."""

import base64
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from kube.fake import device_defaults
from kube.fake.kinds import ObjectKind
from kube.fake.schema import ANY, FieldSchema

Object = dict[str, Any]

ALWAYS_WRITTEN: dict[str, dict[str, Any]] = {
    # Structs that Go writes even when they are empty.
    "V1Deployment": {"spec": {"template": {"metadata": {}, "spec": {}}, "strategy": {}}, "status": {}},
    "V1ReplicaSet": {"spec": {}, "status": {"replicas": 0}},
    "V1StatefulSet": {"spec": {"template": {"metadata": {}, "spec": {}}, "updateStrategy": {}}, "status": {}},
    "V1Job": {"spec": {"template": {"metadata": {}, "spec": {}}}, "status": {}},
    "V1Pod": {"spec": {}, "status": {}},
    "V1Service": {"spec": {}, "status": {"loadBalancer": {}}},
    "V1Namespace": {"spec": {}, "status": {}},
    "V1Node": {"spec": {}, "status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": 0}}}},
    "V1Lease": {"spec": {}},
    "V1ResourceQuota": {"spec": {}, "status": {}},
    "V1PersistentVolumeClaim": {"spec": {"resources": {}}, "status": {}},
    "V1PodDisruptionBudget": {
        "spec": {},
        "status": {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0},
    },
}
FALSE_IS_ABSENT = {
    "unschedulable",
    "paused",
    "hostNetwork",
    "hostPID",
    "hostIPC",
    "stdin",
    "stdinOnce",
    "tty",
    "readOnly",
    "publishNotReadyAddresses",
    "globalDefault",
}
ZERO_IS_ABSENT = {"minReadySeconds", "hostPort", "initialDelaySeconds", "nodePort", "healthCheckNodePort"}
EMPTY_IS_WRITTEN = {"kubeProxyVersion"}
_QUANTITY = re.compile(r"([+-]?[0-9.]+)(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|n|u|[eE][+-]?[0-9]+)?")
_BINARY = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]
_DECIMAL = ["", "k", "M", "G", "T", "P", "E"]


def quantity(written: Any) -> Decimal | None:
    """Read a quantity in units; None if it is none."""
    found = _QUANTITY.fullmatch(str(written))
    if not found:
        return None
    try:
        number = Decimal(found[1])
    except ArithmeticError:
        return None
    suffix = found[2] or ""
    if suffix[:1] in ("e", "E") and len(suffix) > 1 and suffix != "Ei":
        return number.scaleb(int(suffix[1:]))
    if suffix in _BINARY[1:]:
        return number * (1 << 10 * _BINARY.index(suffix))
    small = {"n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3")}
    power: Decimal = small.get(suffix, Decimal(1000) ** (_DECIMAL.index(suffix) if suffix in _DECIMAL else 0))
    return number * power


def canonical(written: Any) -> str:
    """Write a quantity as Go does: `1000m` is `1`, `1024Mi` is `1Gi`; anything else stays as it is."""
    number = quantity(written)
    if number is None:
        return str(written)
    if str(written).endswith("i") and number == number.to_integral():
        power = 0
        while number and number % 1024 == 0 and power < len(_BINARY) - 1:
            number, power = number / 1024, power + 1
        return f"{int(number)}{_BINARY[power]}"
    if number != number.to_integral():
        return f"{int(number * 1000)}m"
    power = 0
    while number and number % 1000 == 0 and power < len(_DECIMAL) - 1:
        number, power = number / 1000, power + 1
    return f"{int(number)}{_DECIMAL[power]}"


def as_stored(value: Any, shape: FieldSchema) -> Any:
    """Decoded into the type and written again: without nulls, unknown fields and what is empty."""
    if shape.kind == "quantity":
        return canonical(value)
    if shape.kind == "struct" and isinstance(value, dict):
        result = {}
        for key, inner in value.items():
            child = shape.child(key)
            if child is None or inner is None:
                continue
            kept = as_stored(inner, child)
            is_condition = shape.name == "V1Condition"
            if is_condition or not _is_left_out(key, kept, child):
                result[key] = kept
        return result
    if shape.kind == "map" and isinstance(value, dict):
        inside = shape.item or ANY
        blank = "" if inside.kind == "string" else None
        return {key: as_stored(blank if one is None else one, inside) for key, one in value.items()}
    if shape.kind == "list" and isinstance(value, list):
        return [as_stored(one, shape.item or ANY) for one in value]
    return value


def _is_left_out(key: str, value: Any, shape: FieldSchema) -> bool:
    if value is False:
        return key in FALSE_IS_ABSENT
    if value == 0 and not isinstance(value, bool | str):
        return key in ZERO_IS_ABSENT
    if value == "":
        return shape.kind in ("string", "time") and key not in EMPTY_IS_WRITTEN
    if value in ({}, []):
        return shape.kind in ("list", "map")
    return False


def with_empty_structs(kind: ObjectKind, item: Object) -> Object:
    """Add structs that are written even when empty."""
    return _filled(item, ALWAYS_WRITTEN.get(kind.shape.name, {}))


def _filled(value: Object, empty: Object) -> Object:
    for key, inner in empty.items():
        if isinstance(inner, dict):
            value[key] = _filled(value.get(key) or {}, inner)
        else:
            value.setdefault(key, inner)
    return value


def zero(kind: ObjectKind) -> Object:
    """Return the base of comparison of a new object: structs that are always there own nothing themselves."""
    blank = _filled({"metadata": {}}, ALWAYS_WRITTEN.get(kind.shape.name, {}))
    for path in (("spec", "template", "spec"), ("spec",)):
        inner: Any = blank
        for key in path:
            inner = inner.get(key) if isinstance(inner, dict) else None
        if isinstance(inner, dict) and (kind.kind == "Pod" or len(path) == 3):
            inner["containers"] = None
    return blank


def _default(target: Object, **values: Any) -> None:
    for key, value in values.items():
        if target.get(key) is None:
            target[key] = value


def pod_spec(spec: Object) -> None:
    _default(
        spec,
        restartPolicy="Always",
        terminationGracePeriodSeconds=30,
        dnsPolicy="ClusterFirst",
        securityContext={},
        schedulerName="default-scheduler",
    )
    for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        _container(container)
    for volume in spec.get("volumes") or ():
        for source in ("secret", "configMap", "projected", "downwardAPI"):
            if isinstance(volume.get(source), dict):
                _default(volume[source], defaultMode=420)
        if not set(volume) - {"name"}:
            volume["emptyDir"] = {}


def _container(container: Object) -> None:
    image = str(container.get("image") or "")
    tag = image.rpartition("@")[2].rpartition(":")[2] if ":" in image.rpartition("/")[2] else "latest"
    _default(
        container,
        resources={},
        terminationMessagePath="/dev/termination-log",
        terminationMessagePolicy="File",
        imagePullPolicy="Always" if tag == "latest" and "@" not in image else "IfNotPresent",
    )
    for port in container.get("ports") or ():
        _default(port, protocol="TCP")
    for variable in container.get("env") or ():
        reference = (variable.get("valueFrom") or {}).get("fieldRef")
        if reference is not None:
            _default(reference, apiVersion="v1")
    for probe in ("readinessProbe", "livenessProbe", "startupProbe"):
        if container.get(probe) is None:
            continue
        _default(container[probe], timeoutSeconds=1, periodSeconds=10, successThreshold=1, failureThreshold=3)
        if container[probe].get("httpGet") is not None:
            _default(container[probe]["httpGet"], scheme="HTTP", path="/")
        if container[probe].get("grpc") is not None:
            _default(container[probe]["grpc"], service="")


def _template(item: Object) -> Object:
    spec: Object = item["spec"]
    template = spec.get("template") or {}
    spec["template"] = template
    template["spec"] = template.get("spec") or {}
    pod_spec(template["spec"])
    if account := template["spec"].get("serviceAccountName"):
        template["spec"]["serviceAccount"] = account
    return spec


def _deployment(item: Object) -> None:
    spec = _template(item)
    _default(spec, replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600)
    spec["strategy"] = spec.get("strategy") or {}
    _default(spec["strategy"], type="RollingUpdate")
    if spec["strategy"]["type"] == "RollingUpdate":
        rolling = spec["strategy"].get("rollingUpdate") or {}
        spec["strategy"]["rollingUpdate"] = rolling
        _default(rolling, maxUnavailable="25%", maxSurge="25%")


def _replica_set(item: Object) -> None:
    _default(_template(item), replicas=1)


def _stateful_set(item: Object) -> None:
    spec = _template(item)
    _default(spec, replicas=1, revisionHistoryLimit=10, podManagementPolicy="OrderedReady")
    spec["updateStrategy"] = spec.get("updateStrategy") or {}
    _default(spec["updateStrategy"], type="RollingUpdate")
    if spec["updateStrategy"]["type"] == "RollingUpdate":
        rolling = spec["updateStrategy"].get("rollingUpdate") or {}
        spec["updateStrategy"]["rollingUpdate"] = rolling
        _default(rolling, partition=0)
    _default(spec, persistentVolumeClaimRetentionPolicy={"whenDeleted": "Retain", "whenScaled": "Retain"})


def _job(item: Object) -> None:
    spec = _template(item)
    _default(
        spec,
        parallelism=1,
        backoffLimit=6,
        completionMode="NonIndexed",
        suspend=False,
        podReplacementPolicy="TerminatingOrFailed" if not spec.get("podFailurePolicy") else "Failed",
        manualSelector=False,
    )
    if (
        spec.get("completions") is None
        and spec["completionMode"] == "NonIndexed"
        and spec["parallelism"] == 1
    ):
        spec["completions"] = 1


def _service(item: Object) -> None:
    spec = item["spec"]
    _default(spec, type="ClusterIP", sessionAffinity="None")
    if spec["type"] != "ExternalName":
        _default(spec, internalTrafficPolicy="Cluster")
    for port in spec.get("ports") or ():
        _default(port, protocol="TCP", targetPort=port.get("port"))


def _namespace(item: Object) -> None:
    metadata = item["metadata"]
    metadata["labels"] = (metadata.get("labels") or {}) | {
        "kubernetes.io/metadata.name": metadata.get("name", "")
    }


def _secret(item: Object) -> None:
    """Encode data that is written plainly."""
    if plain := item.pop("stringData", None):
        encoded = {key: base64.b64encode(one.encode()).decode() for key, one in plain.items()}
        item["data"] = (item.get("data") or {}) | encoded
    _default(item, type="Opaque")


def _role_binding(item: Object) -> None:
    _default(item.get("roleRef") or {}, apiGroup="rbac.authorization.k8s.io")
    for subject in item.get("subjects") or ():
        _default(
            subject,
            **({} if subject.get("kind") == "ServiceAccount" else {"apiGroup": "rbac.authorization.k8s.io"}),
        )


def _pod(item: Object) -> None:
    pod_spec(item["spec"])
    _default(item["spec"], enableServiceLinks=True)
    for container in item["spec"].get("containers") or ():
        limits = container["resources"].get("limits") or {}
        for name, value in limits.items():
            container["resources"].setdefault("requests", {}).setdefault(name, value)


def _claim(item: Object) -> None:
    _default(item["spec"], volumeMode="Filesystem")


def _priority_class(item: Object) -> None:
    _default(item, preemptionPolicy="PreemptLowerPriority")


FILLERS: dict[str, Callable[[Object], None]] = {
    "Pod": _pod,
    "Deployment": _deployment,
    "ReplicaSet": _replica_set,
    "StatefulSet": _stateful_set,
    "Job": _job,
    "Namespace": _namespace,
    "Service": _service,
    "Secret": _secret,
    "RoleBinding": _role_binding,
    "ClusterRoleBinding": _role_binding,
    "PersistentVolumeClaim": _claim,
    "PriorityClass": _priority_class,
    "ResourceClaim": device_defaults.fill_claim,
    "ResourceClaimTemplate": device_defaults.fill_template,
}


def normalised(kind: ObjectKind, item: Object) -> Object:
    """A body as it is stored: unknown fields dropped, defaults filled in."""
    item = as_stored(item, kind.shape) if not kind.is_custom else item
    item["apiVersion"], item["kind"] = kind.api_version, kind.kind
    item.setdefault("metadata", {})
    if not kind.is_custom:
        item = with_empty_structs(kind, item)
        if filler := FILLERS.get(kind.kind):
            filler(item)
    return item
