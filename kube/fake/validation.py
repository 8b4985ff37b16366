"""What the API server refuses in the objects that Slipway writes: the rules that a caller is likely to meet.

Not all rules of Kubernetes: what is not here passes (docs/adr, "the fake is not the judge of a body").
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from kube.fake import device_rules
from kube.fake.causes import StatusCause
from kube.fake.defaults import quantity
from kube.fake.kinds import ObjectKind
from kube.fake.metadata_rules import (
    LABEL,
    NOT_A_LABEL,
    label_faults,
    metadata_faults,
    metadata_update_faults,
)
from kube.fake.refusals import immutable, not_allowed, required, too_long, unsupported, wrong_value
from kube.fake.selectors import matches_labels

Object = dict[str, Any]
NEGATIVE = "must be greater than or equal to 0"
NO_MATCH = "`selector` does not match template `labels`"
CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+")
NOT_A_CONFIG_KEY = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or "
    "'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
MOST_DATA_BYTES = 1024 * 1024
ORDINARY = re.compile(r"(cpu|memory|ephemeral-storage|hugepages-.*)")
TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def faults_of(kind: ObjectKind, item: Object, old: Object | None = None) -> list[StatusCause]:
    """Why this cannot be stored; `old` is what is stored now."""
    faults = metadata_faults(kind, item["metadata"])
    if old is not None:
        faults = metadata_update_faults(item["metadata"], old["metadata"]) + faults * 4
    if check := CHECKS.get(kind.kind):
        faults += check(item)
    if old is not None and (check_update := UPDATE_CHECKS.get(kind.kind)):
        faults += check_update(item, old)
    return faults


def _config_map(item: Object) -> list[StatusCause]:
    return _data_faults(item, "[]")


def _secret(item: Object) -> list[StatusCause]:
    faults = _data_faults(item, "data")
    if item.get("type") == "kubernetes.io/tls":
        held = item.get("data") or {}
        faults += [required(f"data[{key}]") for key in ("tls.crt", "tls.key") if key not in held]
    return faults


def _data_faults(item: Object, place: str) -> list[StatusCause]:
    data = (item.get("data") or {}) | (item.get("binaryData") or {})
    faults = [
        wrong_value(f"data[{key}]", compact(key), NOT_A_CONFIG_KEY)
        for key in data
        if not CONFIG_KEY.fullmatch(key)
    ]
    encoded = item.get("binaryData") or (item.get("data") if item["kind"] == "Secret" else None) or {}
    size = sum(
        len(one) // 4 * 3 - one.count("=") if key in encoded else len(one.encode())
        for key, one in data.items()
    )
    if size > MOST_DATA_BYTES:
        faults.append(too_long(place, MOST_DATA_BYTES))
    return faults


def _secret_update(item: Object, old: Object) -> list[StatusCause]:
    faults = _frozen_data(item, old)
    if item.get("type") != old.get("type"):
        faults.append(immutable("type", compact(item.get("type"))))
    return faults


def _frozen_data(item: Object, old: Object) -> list[StatusCause]:
    if not old.get("immutable"):
        return []
    why = "field is immutable when `immutable` is set"
    return [
        not_allowed(key, why) for key in ("immutable", "data", "binaryData") if item.get(key) != old.get(key)
    ]


def pod_spec_faults(spec: Mapping[str, Any], place: str, *, is_template: bool = False) -> list[StatusCause]:
    faults = []
    names = {volume.get("name") for volume in spec.get("volumes") or ()}
    for index, volume in enumerate(spec.get("volumes") or ()):
        sources = sorted(set(volume) - {"name"})
        if len(sources) > 1:
            # One of them is that which was first.
            faults.append(
                not_allowed(
                    f"{place}.volumes[{index}].{sources[-1]}", "may not specify more than 1 volume type"
                )
            )
            names.discard(volume["name"])
    if not spec.get("containers"):
        faults.append(required(f"{place}.containers"))
    for list_name in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(list_name) or ()):
            faults += _container_faults(container, f"{place}.{list_name}[{index}]", names)
    faults += device_rules.pod_claim_faults(dict(spec), place)
    policy = spec.get("restartPolicy")
    if is_template and policy != "Always":
        faults.append(unsupported(f"{place}.restartPolicy", compact(policy), ["Always"]))
    return faults


def _container_faults(container: Mapping[str, Any], place: str, volumes: set[Any]) -> list[StatusCause]:
    faults = []
    name = container.get("name", "")
    if not name:
        faults.append(required(f"{place}.name"))
    elif not LABEL.fullmatch(name):
        faults.append(wrong_value(f"{place}.name", compact(name), NOT_A_LABEL))
    if not container.get("image"):
        faults.append(required(f"{place}.image"))
    for index, port in enumerate(container.get("ports") or ()):
        number = port.get("containerPort")
        if number is None:
            faults.append(required(f"{place}.ports[{index}].containerPort"))
        elif not 0 < number < 65536:
            why = "must be between 1 and 65535, inclusive"
            faults.append(wrong_value(f"{place}.ports[{index}].containerPort", str(number), why))
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        if mount.get("name") not in volumes:
            found = compact(mount.get("name"))
            faults.append(
                StatusCause(
                    "FieldValueNotFound", f"Not found: {found}", f"{place}.volumeMounts[{index}].name"
                )
            )
    return faults + _resource_faults(container.get("resources") or {}, f"{place}.resources")


def _resource_faults(resources: Mapping[str, Any], place: str) -> list[StatusCause]:
    faults = []
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for name, value in limits.items():
        amount = quantity(value)
        if not ORDINARY.fullmatch(name) and amount is not None and amount != int(amount):
            faults.append(wrong_value(f"{place}.limits[{name}]", compact(value), "must be an integer"))
    for name, value in requests.items():
        if not ORDINARY.fullmatch(name) and name not in limits:
            why = "Limit must be set for non overcommitable resources"
            faults.append(required(f"{place}.limits", why))
        elif name in limits and (quantity(value) or 0) > (quantity(limits[name]) or 0):
            why = f"must be less than or equal to {name} limit of {limits[name]}"
            faults.append(wrong_value(f"{place}.requests", compact(value), why))
        elif not ORDINARY.fullmatch(name) and quantity(value) != quantity(limits[name]):
            why = f"must be equal to {name} limit of {limits[name]}"
            faults.append(wrong_value(f"{place}.requests", compact(value), why))
    return faults


def _pod(item: Object) -> list[StatusCause]:
    return pod_spec_faults(item["spec"], "spec")


def _workload(item: Object) -> list[StatusCause]:
    spec = item["spec"]
    template = spec.get("template") or {}
    faults = []
    if spec.get("replicas", 0) < 0:
        faults.append(wrong_value("spec.replicas", str(spec["replicas"]), NEGATIVE))
    labels = (template.get("metadata") or {}).get("labels")
    selector = spec.get("selector")
    if not selector:
        faults.append(required("spec.selector"))
    if not selector or not matches_labels(selector, labels or {}):
        faults.append(wrong_value("spec.template.metadata.labels", compact(labels), NO_MATCH))
    faults += label_faults(labels or {}, "spec.template.labels")
    return faults + pod_spec_faults(template.get("spec") or {}, "spec.template.spec", is_template=True)


def _same_selector(item: Object, old: Object) -> list[StatusCause]:
    if item["spec"].get("selector") == old["spec"].get("selector"):
        return []
    return [immutable("spec.selector", compact(item["spec"].get("selector")))]


STATEFUL_MAY = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)


def _stateful_set(item: Object, old: Object) -> list[StatusCause]:
    new_rest = {key: one for key, one in item["spec"].items() if key not in STATEFUL_MAY}
    if new_rest == {key: one for key, one in old["spec"].items() if key not in STATEFUL_MAY}:
        return []
    listed = "', '".join(STATEFUL_MAY[:-1])
    why = (
        f"updates to statefulset spec for fields other than '{listed}' and '{STATEFUL_MAY[-1]}' are forbidden"
    )
    return [not_allowed("spec", why)]


def _job(item: Object) -> list[StatusCause]:
    spec = item["spec"]
    faults = []
    if len(item["metadata"].get("name", "")) > 63:
        name = compact(item["metadata"]["name"])
        faults.append(wrong_value("metadata.name", name, "must be no more than 63 characters"))
    faults += _generated_selector_faults(item)
    faults += pod_spec_faults(spec["template"]["spec"], "spec.template.spec")
    policy, place = spec["template"]["spec"].get("restartPolicy"), "spec.template.spec.restartPolicy"
    if policy in (None, "", "Always"):
        said = 'Required value: valid values: "OnFailure", "Never"'
        faults.append(StatusCause("FieldValueRequired", said, place))
    elif policy not in ("OnFailure", "Never"):
        faults.append(unsupported(place, compact(policy), ["OnFailure", "Never"]))
    elif spec.get("podFailurePolicy") and policy != "Never":
        why = 'only "Never" is supported when podFailurePolicy is specified'
        faults.append(wrong_value(place, compact(policy), why))
    return faults


def _generated_selector_faults(item: Object) -> list[StatusCause]:
    spec, labels = item["spec"], item["spec"]["template"].get("metadata", {}).get("labels") or {}
    selector = spec.get("selector") or {}
    wanted = {key: labels.get(key) for key in ("batch.kubernetes.io/controller-uid",)}
    if spec.get("manualSelector") or not selector or selector.get("matchLabels") == wanted:
        return []
    return [
        wrong_value("spec.selector", compact(selector), "`selector` not auto-generated"),
        wrong_value("spec.template.metadata.labels", compact(labels), NO_MATCH),
    ]


def _job_update(item: Object, old: Object) -> list[StatusCause]:
    may_change = {"template"} if old["spec"].get("suspend") else set()
    return [
        immutable(f"spec.{key}", compact(item["spec"].get(key)))
        for key in ("completions", "selector", "template")
        if key not in may_change and item["spec"].get(key) != old["spec"].get(key)
    ]


def _pod_update(item: Object, old: Object) -> list[StatusCause]:
    def fixed(spec: Mapping[str, Any]) -> Object:
        free = ("activeDeadlineSeconds", "tolerations", "schedulingGates")
        rest = {key: one for key, one in spec.items() if key not in free}
        for key in ("containers", "initContainers"):
            rest[key] = [
                {name: one for name, one in each.items() if name != "image"} for each in spec.get(key) or ()
            ]
        return rest

    if fixed(item["spec"]) == fixed(old["spec"]):
        return []
    why = (
        "pod updates may not change fields other than "
        "`spec.containers[*].image`,`spec.initContainers[*].image`,"
        "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
        "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n"
    )
    return [not_allowed("spec", why)]


def _service_update(item: Object, old: Object) -> list[StatusCause]:
    new, was = item["spec"].get("clusterIP"), old["spec"].get("clusterIP")
    if new == was:
        return []
    return [wrong_value("spec.clusterIPs[0]", compact([new]), "may not change once set")]


def _node(item: Object) -> list[StatusCause]:
    faults = []
    seen = set()
    for index, taint in enumerate(item["spec"].get("taints") or ()):
        place = f"metadata.taints[{index}]"
        if taint.get("effect") not in TAINT_EFFECTS:
            faults += 2 * [unsupported(f"{place}.effect", compact(taint.get("effect")), TAINT_EFFECTS)]
        both = (taint.get("key"), taint.get("effect"))
        if both in seen:
            shown = {"Key": taint.get("key"), "Value": taint.get("value", ""), "Effect": taint.get("effect")}
            why = f"Duplicate value: {compact(shown | {'TimeAdded': None})}: "
            why += "taints must be unique by key and effect pair"
            faults += 2 * [StatusCause("FieldValueDuplicate", why, place)]
        seen.add(both)
    return faults


def _node_update(item: Object, old: Object) -> list[StatusCause]:
    was = old["spec"].get("providerID")
    if was and item["spec"].get("providerID") != was:
        return [
            not_allowed("spec.providerID", 'node updates may not change providerID except from "" to valid')
        ]
    return []


def _event(item: Object) -> list[StatusCause]:
    place = item["involvedObject"].get("namespace", "")
    if place in ("", item["metadata"].get("namespace", "")):
        return []
    return [wrong_value("involvedObject.namespace", compact(place), "does not match event.namespace")]


def _budget(item: Object) -> list[StatusCause]:
    spec = item["spec"]
    if "minAvailable" in spec and "maxUnavailable" in spec:
        why = "minAvailable and maxUnavailable cannot be both set"
        return [wrong_value("spec", compact(spec), why)]
    return []


def _binding_update(item: Object, old: Object) -> list[StatusCause]:
    if item.get("roleRef") == old.get("roleRef"):
        return []
    return [wrong_value("roleRef", compact(item.get("roleRef")), "cannot change roleRef")]


def _claim_update(item: Object, old: Object) -> list[StatusCause]:
    def rest(spec: Mapping[str, Any]) -> Object:
        return {key: one for key, one in spec.items() if key not in ("resources", "volumeName")}

    new, was = item["spec"]["resources"], old["spec"]["resources"]
    smaller = any(
        (quantity(new.get("requests", {}).get(key, 0)) or 0) < (quantity(one) or 0)
        for key, one in was.get("requests", {}).items()
    )
    if (
        rest(item["spec"]) == rest(old["spec"])
        and not smaller
        and (new == was or old["spec"].get("volumeName"))
    ):
        return []
    why = (
        "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound "
        "claims\n"
    )
    return [not_allowed("spec", why)]


CHECKS: dict[str, Callable[[Object], list[StatusCause]]] = {
    "ConfigMap": _config_map,
    "Secret": _secret,
    "Pod": _pod,
    "Deployment": _workload,
    "ReplicaSet": _workload,
    "StatefulSet": _workload,
    "Job": _job,
    "Node": _node,
    "Event": _event,
    "PodDisruptionBudget": _budget,
    "ResourceClaim": lambda item: [*device_rules.claim_faults(item), *device_rules.claim_status_faults(item)],
    "ResourceClaimTemplate": device_rules.template_faults,
    "ResourceSlice": device_rules.slice_faults,
}
UPDATE_CHECKS: dict[str, Callable[[Object, Object], list[StatusCause]]] = {
    "ConfigMap": _frozen_data,
    "Secret": _secret_update,
    "Deployment": _same_selector,
    "ReplicaSet": _same_selector,
    "StatefulSet": _stateful_set,
    "Job": _job_update,
    "Pod": _pod_update,
    "Service": _service_update,
    "Node": _node_update,
    "RoleBinding": _binding_update,
    "ClusterRoleBinding": _binding_update,
    "PersistentVolumeClaim": _claim_update,
    "ResourceClaim": device_rules.same_spec,
    "ResourceClaimTemplate": device_rules.same_spec,
    "ResourceSlice": device_rules.slice_update,
}
