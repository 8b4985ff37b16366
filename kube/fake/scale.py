"""The scale subresource: an object's replicas and nothing else of it."""

from typing import Any

from kube.fake.causes import StatusCause
from kube.fake.kinds import ObjectKind
from kube.fake.refusals import RequestRefused, wrong_value
from kube.fake.selectors import written_selector
from kube.fake.storage import copied
from kube.fake.validation import NEGATIVE

Object = dict[str, Any]


def scale_of(kind: ObjectKind, item: Object) -> Object:
    metadata = {
        key: item["metadata"][key]
        for key in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        if key in item["metadata"]
    }
    replicas = item.get("spec", {}).get("replicas", 0)
    status: Object = {"replicas": item.get("status", {}).get("replicas", 0)}
    selector = item.get("spec", {}).get("selector")
    if isinstance(selector, dict):
        status["selector"] = written_selector(selector)
    elif kind.is_custom and item.get("status", {}).get("hpaPodSelector"):
        status["selector"] = item["status"]["hpaPodSelector"]
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def scaled(item: Object, scale: Object) -> Object:
    """The object as the scale says. Raises RequestRefused."""
    replicas = (scale.get("spec") or {}).get("replicas") or 0
    if replicas < 0:
        cause: StatusCause = wrong_value("spec.replicas", str(replicas), NEGATIVE)
        name = item["metadata"]["name"]
        details = {"name": name, "group": "autoscaling", "kind": "Scale", "causes": [cause.as_json()]}
        said = f'Scale.autoscaling "{name}" is invalid: {cause.field}: {cause.message}'
        raise RequestRefused(422, "Invalid", said, details)
    new: Object = copied(item)
    new["spec"]["replicas"] = replicas
    if version := (scale.get("metadata") or {}).get("resourceVersion"):
        new["metadata"]["resourceVersion"] = version
    else:
        new["metadata"].pop("resourceVersion", None)
    return new
