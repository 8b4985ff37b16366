"""What `kubectl kustomize` makes of the directories in `deploy/`, for machines without kubectl.

Of kustomize it knows what these use, and refuses the rest; test_manifests.py holds it against kubectl where
there is one.
"""

import copy
import re
from pathlib import Path
from typing import Any

import yaml

Document = dict[str, Any]
KNOWN = {"apiVersion", "kind", "namespace", "labels", "resources", "images", "replicas", "patches"}
PLURALS = {"NetworkPolicy": "networkpolicies", "Ingress": "ingresses"}
WITHOUT_NAMESPACE = {"Namespace"}
POD_TEMPLATES = {"Deployment", "DaemonSet", "Job"}


def render(directory: Path) -> list[Document]:
    """Raises ValueError for what it does not know."""
    rules: Document = yaml.safe_load((directory / "kustomization.yaml").read_text())
    if unknown := rules.keys() - KNOWN:
        raise ValueError(f"{directory}: {', '.join(sorted(unknown))} is not known here")
    found: list[Document] = []
    for name in rules["resources"]:
        place = directory / name
        found += render(place) if place.is_dir() else list(yaml.safe_load_all(place.read_text()))
    for patch in rules.get("patches", ()):
        _patch(found, patch, directory)
    for one in found:
        _label(one, rules.get("labels", ()))
        if (namespace := rules.get("namespace")) and one["kind"] not in WITHOUT_NAMESPACE:
            one["metadata"]["namespace"] = namespace
        for image in rules.get("images", ()):
            _image(one, image)
        for wanted in rules.get("replicas", ()):
            if one["kind"] == "Deployment" and one["metadata"]["name"] == wanted["name"]:
                one["spec"]["replicas"] = wanted["count"]
    return found


def pod_spec(document: Document) -> Document | None:
    """Return the pod spec of an object that makes pods; None: it makes none."""
    if document["kind"] not in POD_TEMPLATES:
        return None
    spec: Document = document["spec"]["template"]["spec"]
    return spec


def path_of(document: Document) -> str:
    """Return the path of the object's kind at an API server, in its namespace."""
    version, kind = document["apiVersion"], document["kind"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    namespace = document["metadata"].get("namespace")
    place = f"/namespaces/{namespace}" if namespace else ""
    return f"{root}{place}/{PLURALS.get(kind, f'{kind.lower()}s')}"


def containers(spec: Document) -> list[Document]:
    return [*spec.get("initContainers", ()), *spec["containers"]]


def _label(document: Document, rules: list[Document]) -> None:
    for rule in rules:
        if rule.get("includeSelectors") or rule.get("includeTemplates"):
            raise ValueError("labels go on objects alone")
        document["metadata"].setdefault("labels", {}).update(rule["pairs"])


def _image(document: Document, rule: Document) -> None:
    for container in containers(pod_spec(document) or {"containers": []}):
        if container["image"].partition("@")[0].rpartition(":")[0] == rule["name"] or (
            container["image"] == rule["name"]
        ):
            tail = f"@{rule['digest']}" if "digest" in rule else f":{rule['newTag']}"
            container["image"] = rule["newName"] + tail


def _patch(documents: list[Document], rule: Document, directory: Path) -> None:
    change = yaml.safe_load((directory / rule["path"]).read_text())
    if isinstance(change, list):
        target = rule["target"]
        chosen = [
            one
            for one in documents
            if one["kind"] == target["kind"]
            and re.fullmatch(target.get("name", ".*"), one["metadata"]["name"])
        ]
    else:
        name = change["metadata"]["name"]
        chosen = [
            one for one in documents if (one["kind"], one["metadata"]["name"]) == (change["kind"], name)
        ]
    if not chosen:
        raise ValueError(f"{rule['path']} patches nothing")
    for one in chosen:
        if isinstance(change, list):
            for operation in change:
                _operate(one, operation)
        else:
            _merge(one, change)


def _operate(document: Document, operation: Document) -> None:
    *way, last = operation["path"].removeprefix("/").split("/")
    place: Any = document
    for key in way:
        place = place[int(key)] if isinstance(place, list) else place[key]
    # Each document gets a value of its own, or the next change would be made to all.
    value = copy.deepcopy(operation["value"])
    if operation["op"] == "add" and last == "-":
        place.append(value)
    elif operation["op"] == "replace" and isinstance(place, list):
        place[int(last)] = value
    elif operation["op"] in ("add", "replace") and isinstance(place, dict):
        place[last] = value
    else:
        raise ValueError(f"{operation['op']} {operation['path']} is not known here")


def _merge(document: Document, change: Document) -> None:
    for key, value in change.items():
        if isinstance(value, dict):
            _merge(document.setdefault(key, {}), value)
        elif isinstance(value, list):
            raise ValueError(f"{key}: lists are merged by keys that are not known here")
        else:
            document[key] = value
