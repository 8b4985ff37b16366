"""HTTPRoutes as documents: what of them is ours, what was wished last and by whom. Pure.

The fence and the wish lie in an annotation of the HTTPRoute itself, so that one resourceVersion guards rules
and fence alike. A removed route of ours stays for a while, attached to no Gateway: its fence must outlive it.
"""

import json
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from common.fence import Fence
from gateway.backends.gateway_api.rules import (
    Places,
    emptied,
    key_of,
    merged,
    ours,
    rules_of,
    slug,
    to_pool,
    without_mirrors,
)
from gateway.backends.gateway_api.settings import GatewayApiSettings
from gateway.backends.state import spec_from_dict, spec_to_dict
from gateway.routes import RouteSpec

Document = dict[str, Any]

MANAGED_BY = "app.kubernetes.io/managed-by"
_GROUP = "gateway.networking.k8s.io"


@dataclass(frozen=True, slots=True)
class RouteRecord:
    """An HTTPRoute's record of one service."""

    fence: Fence
    spec: RouteSpec | None
    """None: it was removed."""
    removed_at: datetime | None = None


def object_name(service: str) -> str:
    """Return the name of an HTTPRoute of ours."""
    return f"slipway-{slug(service)}"


def record_key(service: str) -> str:
    """Name of the annotation."""
    return f"slipway.io/route.{slug(service)}"


def is_own(document: Document) -> bool:
    """We made it, and may remove it."""
    return (document["metadata"].get("labels") or {}).get(MANAGED_BY) == "slipway"


def record_of(document: Document, service: str) -> RouteRecord | None:
    """Return the record; None: there is none, or it is not ours."""
    return _read((document["metadata"].get("annotations") or {}).get(record_key(service), ""), document)


def records_of(document: Document) -> list[RouteRecord]:
    """Return the records of all services."""
    annotations = document["metadata"].get("annotations") or {}
    found = [
        _read(text, document) for key, text in annotations.items() if key.startswith(record_key("x")[:-1])
    ]
    return [one for one in found if one is not None]


def with_route(
    document: Document | None,
    spec: RouteSpec,
    *,
    fence: Fence,
    places: Places,
    timeout: str,
    settings: GatewayApiSettings,
) -> Document:
    """The HTTPRoute with this route in it; None: one of our own."""
    after = _own(spec.name, settings) if document is None else deepcopy(document)
    body = after.setdefault("spec", {})
    wanted = rules_of(
        spec,
        places,
        home=after["metadata"]["namespace"],
        timeout=timeout,
        kind=to_pool if settings.inference_pools else None,
    )
    former = record_of(after, spec.name)
    targets = {one.name for one in (*spec.targets, *(former.spec.targets if former and former.spec else ()))}
    present = without_mirrors(body.get("rules") or [], spec.name, targets)
    # One of our own that was made in one go, or that had been removed, has nothing of others to keep.
    body["rules"] = merged(present, wanted, spec.name)
    if is_own(after):
        body["parentRefs"] = _with_parent(body.get("parentRefs") or [], settings)
        body["hostnames"] = list(settings.hostnames)
        if not settings.hostnames:
            del body["hostnames"]
    _note(after, spec.name, RouteRecord(fence, spec))
    return after


def without_route(
    document: Document | None, service: str, *, fence: Fence, now: datetime, settings: GatewayApiSettings
) -> Document:
    """The HTTPRoute without that route; of our own what remembers the fence."""
    after = _own(service, settings) if document is None else deepcopy(document)
    body = after.setdefault("spec", {})
    if is_own(after):
        body.pop("parentRefs", None)
        body.setdefault("rules", emptied([], service))
    elif ours(body.get("rules") or [], service):
        body["rules"] = emptied(body["rules"], service)
    before = record_of(after, service)
    removed_at = before.removed_at if before and before.removed_at else now
    _note(after, service, RouteRecord(fence, None, removed_at))
    return after


def change(before: Document, after: Document) -> Document:
    """Return the merge patch between the two, which holds for this version alone; empty: they are equal."""
    metadata, body = before["metadata"], before.get("spec") or {}
    annotations = {
        key: value
        for key, value in (after["metadata"].get("annotations") or {}).items()
        if (metadata.get("annotations") or {}).get(key) != value
    }
    spec = {
        key: after["spec"].get(key)
        for key in ("parentRefs", "hostnames", "rules")
        if after["spec"].get(key) != body.get(key)
    }
    if not annotations and not spec:
        return {}
    guard = {key: metadata[key] for key in ("uid", "resourceVersion")}
    return {"metadata": guard | ({"annotations": annotations} if annotations else {})} | (
        {"spec": spec} if spec else {}
    )


def names_parent(document: Document, settings: GatewayApiSettings) -> bool:
    """Whether somebody else's HTTPRoute attaches to our Gateway."""
    namespace = document["metadata"]["namespace"]
    return any(
        is_parent(one, namespace, settings) for one in (document.get("spec") or {}).get("parentRefs") or ()
    )


def is_parent(ref: Mapping[str, Any], namespace: str, settings: GatewayApiSettings) -> bool:
    """`namespace`: of the HTTPRoute."""
    return (
        ref.get("kind", "Gateway") == "Gateway"
        and ref["name"] == settings.gateway
        and ref.get("namespace", namespace) == settings.parent_namespace
        and ref.get("sectionName", "") in ("", settings.section or ref.get("sectionName", ""))
    )


def _with_parent(present: list[Document], settings: GatewayApiSettings) -> list[Document]:
    ref = {"group": _GROUP, "kind": "Gateway", "name": settings.gateway}
    if settings.parent_namespace != settings.namespace:
        ref["namespace"] = settings.parent_namespace
    if settings.section:
        ref["sectionName"] = settings.section
    return present if ref in present else [*present, ref]


def _own(service: str, settings: GatewayApiSettings) -> Document:
    return _named(object_name(service), settings, {"slipway.io/service": slug(service)})


def own_route(name: str, settings: GatewayApiSettings, labels: Mapping[str, str]) -> Document:
    """Return an HTTPRoute of ours, attached to the Gateway, without its rules."""
    made = _named(name, settings, labels)
    made["spec"] = {"parentRefs": _with_parent([], settings)}
    if settings.hostnames:
        made["spec"]["hostnames"] = list(settings.hostnames)
    return made


def _named(name: str, settings: GatewayApiSettings, labels: Mapping[str, str]) -> Document:
    return {
        "apiVersion": f"{_GROUP}/v1",
        "kind": "HTTPRoute",
        "metadata": {
            "name": name,
            "namespace": settings.namespace,
            "labels": {MANAGED_BY: "slipway", **labels},
        },
        "spec": {},
    }


def _note(document: Document, service: str, record: RouteRecord) -> None:
    text: Document = {"fence": list(record.fence)}
    if record.removed_at is not None:
        text["removed_at"] = record.removed_at.isoformat()
    if record.spec is not None:
        text["name"] = service
        # The key stands in the rules, where the gateway needs it, and nowhere else.
        text["spec"] = spec_to_dict(replace(record.spec, release_key=""))
    annotations = document["metadata"].setdefault("annotations", {})
    annotations[record_key(service)] = json.dumps(text, sort_keys=True)


def _read(text: str, document: Document) -> RouteRecord | None:
    try:
        data = json.loads(text) if text else None
        if data is None:
            return None
        fence = Fence(*map(int, data["fence"]))
        removed_at = datetime.fromisoformat(data["removed_at"]) if "removed_at" in data else None
        if "spec" not in data:
            return RouteRecord(fence, None, removed_at or datetime.now(UTC))
        spec = spec_from_dict(data["name"], data["spec"])
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    key = key_of((document.get("spec") or {}).get("rules") or [], spec.name)
    return RouteRecord(fence, replace(spec, release_key=key), removed_at)
