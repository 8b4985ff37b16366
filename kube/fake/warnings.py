"""Warnings of the API server about what it takes."""

from typing import Any


def warnings_of(item: dict[str, Any]) -> list[str]:
    said = []
    spec = item.get("spec") or {}
    place = "spec.template.spec" if item["kind"] != "Pod" else "spec"
    pod = (spec.get("template") or {}).get("spec") or {} if item["kind"] != "Pod" else spec
    if item["kind"] in ("Deployment", "ReplicaSet") and len(item["metadata"]["name"]) > 63:
        said.append(
            "metadata.name: this is used in Pod names and hostnames, which can result in surprising "
            "behavior; a DNS "
            "label is recommended: [must be no more than 63 characters]"
        )
    for index, one in enumerate(pod.get("topologySpreadConstraints") or ()):
        if one.get("labelSelector") is None:
            said.append(
                f"{place}.topologySpreadConstraints[{index}].labelSelector: a null labelSelector results in "
                "matching no pod"
            )
    return said
