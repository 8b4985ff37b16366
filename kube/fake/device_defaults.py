"""Defaults of resource.k8s.io/v1."""

from typing import Any

Object = dict[str, Any]


def fill_claim(item: Object) -> None:
    _fill(item["spec"])


def fill_template(item: Object) -> None:
    _fill(item["spec"].get("spec") or {})


def _fill(spec: Object) -> None:
    for request in (spec.get("devices") or {}).get("requests") or ():
        for one in (request.get("exactly"), *(request.get("firstAvailable") or ())):
            if one is not None:
                one.setdefault("allocationMode", "ExactCount")
                if one["allocationMode"] == "ExactCount":
                    one.setdefault("count", 1)
