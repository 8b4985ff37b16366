"""Refusals of resource.k8s.io/v1: slices, classes, claims and templates, and pods that use claims.

After the published API (1.36). CEL of selectors is not compiled: what `kube.fake.devices` cannot read selects
nothing.
"""

import json
from collections.abc import Iterator
from typing import Any

from kube.fake.causes import StatusCause
from kube.fake.refusals import immutable, not_allowed, required, wrong_value

Object = dict[str, Any]
MOST_DEVICES = 128
MOST_COUNTING_DEVICES = 64
"""Of a slice whose devices consume counters."""
MOST_COUNTER_SETS = 8
PLACES = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")


def claim_faults(item: Object) -> list[StatusCause]:
    return list(_claim_spec(item["spec"], "spec"))


def template_faults(item: Object) -> list[StatusCause]:
    return list(_claim_spec(item["spec"].get("spec") or {}, "spec.spec"))


def _claim_spec(spec: Object, place: str) -> Iterator[StatusCause]:
    seen: set[str] = set()
    for index, request in enumerate((spec.get("devices") or {}).get("requests") or ()):
        at = f"{place}.devices.requests[{index}]"
        if not request.get("name"):
            yield required(f"{at}.name")
        elif request["name"] in seen:
            yield StatusCause("FieldValueDuplicate", f'Duplicate value: "{request["name"]}"', f"{at}.name")
        seen.add(request.get("name", ""))
        given = [key for key in ("exactly", "firstAvailable") if request.get(key)]
        if len(given) != 1:
            why = "exactly one of `exactly` or `firstAvailable` must be specified"
            yield wrong_value(at, json.dumps(request, separators=(",", ":")), why)
        for one in (request.get("exactly"), *(request.get("firstAvailable") or ())):
            if one is not None and not one.get("deviceClassName"):
                yield required(f"{at}.exactly.deviceClassName")
            if one is not None and one.get("allocationMode") == "ExactCount" and one.get("count", 1) <= 0:
                yield wrong_value(f"{at}.exactly.count", str(one["count"]), "must be greater than zero")
    names = seen
    for index, constraint in enumerate((spec.get("devices") or {}).get("constraints") or ()):
        for number, name in enumerate(constraint.get("requests") or ()):
            if name not in names:
                at = f"{place}.devices.constraints[{index}].requests[{number}]"
                yield wrong_value(at, json.dumps(name), "must be the name of a request in the claim")


def same_spec(item: Object, old: Object) -> list[StatusCause]:
    """Refuse another spec of a claim or a template."""
    if item["spec"] == old["spec"]:
        return []
    return [immutable("spec", json.dumps(item["spec"], separators=(",", ":")))]


def slice_faults(item: Object) -> list[StatusCause]:
    spec = item["spec"]
    faults = []
    if sum(bool(spec.get(one)) for one in PLACES) != 1:
        told = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
        faults.append(wrong_value("spec", "{}", told))
    faults += [required(f"spec.{field}") for field in ("driver", "pool") if not spec.get(field)]
    devices, sets = spec.get("devices") or (), spec.get("sharedCounters") or ()
    if devices and sets:
        faults.append(wrong_value("spec", "{}", "only one of `sharedCounters` or `devices` may be set"))
    most = MOST_COUNTING_DEVICES if any(one.get("consumesCounters") for one in devices) else MOST_DEVICES
    for name, count, limit in (
        ("devices", len(devices), most), ("sharedCounters", len(sets), MOST_COUNTER_SETS),
    ):  # fmt: skip
        if count > limit:
            told = f"Too many: {count}: must have at most {limit} items"
            faults.append(StatusCause("FieldValueTooMany", told, f"spec.{name}"))
    faults += [
        required(f"spec.sharedCounters[{place}].counters")
        for place, one in enumerate(sets)
        if not one.get("counters")
    ]
    return faults


def slice_update(item: Object, old: Object) -> list[StatusCause]:
    return [
        immutable(f"spec.{field}", json.dumps(item["spec"].get(field)))
        for field in ("driver", "nodeName")
        if item["spec"].get(field) != old["spec"].get(field)
    ]


def pod_claim_faults(spec: Object, place: str) -> list[StatusCause]:
    """Refuse claims of a pod that name no source, and claims of a container that the pod has not."""
    faults = []
    claims = spec.get("resourceClaims") or ()
    for index, one in enumerate(claims):
        given = [key for key in ("resourceClaimName", "resourceClaimTemplateName") if one.get(key)]
        if len(given) != 1:
            at = f"{place}.resourceClaims[{index}]"
            why = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            faults.append(wrong_value(at, json.dumps(one, separators=(",", ":")), why))
    names = {one.get("name") for one in claims}
    for list_name in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(list_name) or ()):
            for number, one in enumerate((container.get("resources") or {}).get("claims") or ()):
                if one.get("name") not in names:
                    at = f"{place}.{list_name}[{index}].resources.claims[{number}].name"
                    faults.append(StatusCause("FieldValueNotFound", f'Not found: "{one.get("name")}"', at))
    return faults


def claim_status_faults(item: Object) -> list[StatusCause]:
    """Refuse consumers of a claim that has no allocation."""
    status = item.get("status") or {}
    if status.get("reservedFor") and not status.get("allocation"):
        return [not_allowed("status.reservedFor", "may not be specified when `allocated` is not set")]
    return []
