"""The comparable part of two answers: without what a server makes up, or does at a time of its own."""

import re
from typing import Any

BY_CHANCE = {
    ("apiserver", "Namespace", "KubeAPIReadyz", "Warning"),
    ("kubelet", "Pod", "Unhealthy", "Warning"),
    ("kubelet", "Node", "NodeReady", "Normal"),
    ("controllermanager", "PodDisruptionBudget", "NoPods", "Normal"),
    ("controllermanager", "PodDisruptionBudget", "UnmanagedPods", "Warning"),
    ("controllermanager", "Pod", "MultiplePodDisruptionBudgets", "Warning"),
    ("node-controller", "Node", "RegisteredNode", "Normal"),
}
"""The recording's simulated kubelets, and what was told before a script began."""
ZONES = {"topology.kubernetes.io/region", "topology.kubernetes.io/zone"}
CONTROLLERS = {"kube-controller-manager", "kube-scheduler", "kubelet", "kube-apiserver", "cluster"}
REVISION = "deployment.kubernetes.io/revision"


def told_differently(wanted: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """Reasons that are told of a kind of object by a component; of those whose moments are not chance."""
    was, now = ({_told(one) for one in each.get("items") or ()} for each in (wanted, found))
    return [f"not told: {one}" for one in sorted(was - now - BY_CHANCE)] + [
        f"told and should not be: {one}" for one in sorted(now - was - BY_CHANCE)
    ]


def _told(event: dict[str, Any]) -> tuple[str, str, str, str]:
    component = (event.get("source") or {}).get("component") or event.get("reportingComponent") or ""
    return (component, event["involvedObject"]["kind"], event.get("reason", ""), event.get("type", ""))


def collapsed(events: list[dict[str, Any]]) -> list[str]:
    """Return the changes of each object, however often it was modified in between."""
    result: dict[str, list[str]] = {}
    for one in events:
        if one["type"] != "BOOKMARK":
            kinds = result.setdefault(one["object"]["metadata"].get("uid", ""), [])
            if kinds[-1:] != [one["type"]]:
                kinds.append(one["type"])
    return sorted(" ".join(kinds) for kinds in result.values())


def briefly(events: list[dict[str, Any]]) -> list[str]:
    return [f"{one['type']} {one['object']['metadata'].get('name')}" for one in events]


def by_manager(entries: list[dict[str, Any]]) -> dict[str, Any]:
    keys = ("manager", "operation", "apiVersion", "subresource")
    return {
        " ".join(str(one.get(key, "-")) for key in keys): one.get("fieldsV1")
        for one in entries
        if one.get("manager") not in CONTROLLERS
    }


def without_controllers(value: Any) -> Any:
    """Without what controllers write at a time of their own: it is looked at where they are what is tried."""
    if not isinstance(value, dict) or "metadata" not in value:
        return without_token(value)
    annotations = {
        key: one for key, one in (value["metadata"].get("annotations") or {}).items() if key != REVISION
    }
    metadata = {key: one for key, one in value["metadata"].items() if key != "annotations"}
    if annotations:
        metadata["annotations"] = annotations
    if value.get("kind") == "SelfSubjectAccessReview" or not by_manager(metadata.get("managedFields") or []):
        metadata.pop("managedFields", None)
    if "nodeName" in (value.get("spec") or {}) or value.get("kind") == "Pod":
        return without_machine(value, metadata)
    result = value | {"metadata": metadata}
    if str(value.get("apiVersion", "")).startswith(("apps/", "batch/")):
        result.pop("status", None)
    return result


def without_machine(pod: dict[str, Any], metadata: dict[str, Any]) -> dict[str, Any]:
    """Without which machine was chosen, and what its simulated kubelet said."""
    labels = {key: one for key, one in (metadata.get("labels") or {}).items() if key not in ZONES}
    metadata = {key: one for key, one in metadata.items() if key not in ("labels", "generation")}
    if labels:
        metadata["labels"] = labels
    spec = {key: one for key, one in (pod.get("spec") or {}).items() if key != "nodeName"}
    conditions = [
        one for one in (pod.get("status") or {}).get("conditions") or () if one["type"] == "DisruptionTarget"
    ]
    return pod | {"metadata": metadata, "spec": spec, "status": conditions}


def without_token(value: Any) -> Any:
    """Without the volume of a pod's account token: the recorded one has a source of the fork's own."""
    if not isinstance(value, dict):
        return value
    result = dict(value)
    for key in ("volumes", "volumeMounts"):
        if isinstance(value.get(key), list):
            result[key] = [
                one for one in value[key] if not str(one.get("name")).startswith("kube-api-access-")
            ]
            if not result[key]:
                del result[key]
    return result


def is_time(wanted: str, found: str) -> bool:
    stamp = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"
    return bool(re.fullmatch(stamp, wanted) and re.fullmatch(stamp, found))
