"""Questions to the API server that store nothing: may I, who am I, what is there."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from kube.fake.clock import SimulatedClock
from kube.fake.kinds import ObjectKind
from kube.fake.refusals import RequestRefused, no_such_path, wrong_value
from kube.fake.rights import AccessRequest, Rights
from kube.fake.wire import ApiRequest, ApiResponse

Object = dict[str, Any]
VERSION = {"major": "1", "minor": "36", "gitVersion": "v1.36.2", "platform": "linux/amd64"}
VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
SUBRESOURCE_VERBS = {"eviction": ["create"], "token": ["create"], "binding": ["create"], "log": ["get"]}


def review(path: str, request: ApiRequest, rights: Rights, clock: SimulatedClock) -> ApiResponse | None:
    """Answer a review; None: the request is for something else. Raises RequestRefused."""
    if request.method != "POST":
        return None
    if path == "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews":
        return ApiResponse(201, _access(json.loads(request.body), request, rights))
    if path == "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews":
        return ApiResponse(201, _rules(json.loads(request.body), request, rights))
    if path == "/apis/authentication.k8s.io/v1/selfsubjectreviews":
        info = {"username": request.user.name, "groups": list(request.user.groups)}
        if request.user.uid:
            info["uid"] = request.user.uid
        made = {"creationTimestamp": clock.stamp()}
        return ApiResponse(
            201,
            {
                "kind": "SelfSubjectReview",
                "apiVersion": "authentication.k8s.io/v1",
                "metadata": made,
                "status": {"userInfo": info},
            },
        )
    return None


def _access(body: Object, request: ApiRequest, rights: Rights) -> Object:
    spec = body.get("spec") or {}
    asked = spec.get("resourceAttributes")
    if asked is None and spec.get("nonResourceAttributes") is None:
        why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        cause = wrong_value("spec.resourceAttributes", "null", why)
        details = {"group": "authorization.k8s.io", "causes": [cause.as_json()]}
        said = f'.authorization.k8s.io "" is invalid: {cause.field}: {cause.message}'
        raise RequestRefused(422, "Invalid", said, details)
    allowed, reason = rights.allows(request.user, _asked(asked or {}))
    status: Object = {"allowed": allowed}
    if reason:
        status["reason"] = reason
    return {
        "kind": "SelfSubjectAccessReview",
        "apiVersion": "authorization.k8s.io/v1",
        "metadata": {},
        "spec": spec,
        "status": status,
    }


def _rules(body: Object, request: ApiRequest, rights: Rights) -> Object:
    spec = body.get("spec") or {}
    if not spec.get("namespace"):
        raise RequestRefused(400, "BadRequest", "no namespace on request", {})
    listed = list(rights.rules_of(request.user, spec["namespace"]))
    return {
        "kind": "SelfSubjectRulesReview",
        "apiVersion": "authorization.k8s.io/v1",
        "metadata": {},
        "spec": {},
        "status": {"resourceRules": listed, "nonResourceRules": [], "incomplete": False},
    }


def _asked(attributes: Mapping[str, str]) -> AccessRequest:
    keys = ("verb", "group", "resource", "subresource", "namespace", "name")
    return AccessRequest(**{key: attributes.get(key, "") for key in keys})


def described(path: str, kinds: Iterable[ObjectKind]) -> Object | str:
    """Discovery, version and health. Raises RequestRefused."""
    kinds = list(kinds)
    if path == "/version":
        return VERSION
    if path in ("/healthz", "/livez", "/readyz"):
        return "ok"
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
    if path == "/apis":
        groups = sorted({one.group for one in kinds if one.group})
        return {
            "kind": "APIGroupList",
            "apiVersion": "v1",
            "groups": [_group(name, kinds) for name in groups],
        }
    parts = path.strip("/").split("/")
    group = parts[1] if parts[0] == "apis" and len(parts) > 1 else ""
    if parts[0] == "apis" and len(parts) == 2 and any(one.group == group for one in kinds):
        return {"kind": "APIGroup", "apiVersion": "v1"} | _group(group, kinds)
    version = parts[-1]
    found = [one for one in kinds if one.group == group and version in {one.version} | one.also_served]
    if not found or parts[0] not in ("api", "apis") or len(parts) != (3 if group else 2):
        raise no_such_path()
    listed = [entry for one in sorted(found, key=lambda one: one.plural) for entry in _entries(one)]
    name = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": listed}


def _group(name: str, kinds: list[ObjectKind]) -> Object:
    versions = sorted({one.version for one in kinds if one.group == name})
    written = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": written, "preferredVersion": written[0]}


def _entries(kind: ObjectKind) -> list[Object]:
    whole = {"name": kind.plural, "singularName": kind.kind.lower(), "namespaced": kind.is_namespaced}
    entries: list[Object] = [whole | {"kind": kind.kind, "verbs": VERBS}]
    for name in sorted(kind.subresources):
        inner = {"scale": "Scale", "eviction": "Eviction", "token": "TokenRequest"}.get(name, kind.kind)
        entry = {"name": f"{kind.plural}/{name}", "singularName": "", "namespaced": kind.is_namespaced}
        entries.append(
            entry | {"kind": inner, "verbs": SUBRESOURCE_VERBS.get(name, ["get", "patch", "update"])}
        )
    return entries
