"""The Client: requests as the API wants them, answers as we want them. Over the network and over the fake
alike.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from kube.answers import error_of
from kube.base import (
    ChangeType,
    CollectedItems,
    JsonPatch,
    Kept,
    MergePatch,
    Object,
    ObjectChange,
    ObjectList,
    Permission,
    Propagation,
)
from kube.errors import HistoryLost, InvalidObject, KubeError, NotFound, NotServed, ServerFault
from kube.resources import BY_KIND, Ref, Resource
from kube.rules import Rules
from kube.transport import ApiCall, ApiReply, Transport

FIELD_MANAGER = "slipway"
JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
PAGE_ITEMS = 500
LONGEST_WATCH_SECONDS = 280.0
"""Below the five minutes after which proxies like to cut what is silent."""
SILENCE_SECONDS = 15.0
"""That a watch may overrun its time by, before it counts as lost."""
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9._:]*[A-Za-z0-9])?")
"""Wider than Kubernetes' own rules (RBAC has colons), but never a way out of a path."""


class KubeClient:
    """A `kube.base.KubernetesClient`. `limit_seconds` is that of one request; a list of many pages has it for
    each.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        field_manager: str = FIELD_MANAGER,
        limit_seconds: float = 10.0,
        page_items: int = PAGE_ITEMS,
    ) -> None:
        self.transport = transport
        self.field_manager = field_manager
        self.limit_seconds = limit_seconds
        self.page_items = page_items

    def get(self, ref: Ref) -> Object:
        return self._json("GET", _path(ref))

    def list(
        self, resource: Resource, *, namespace: str = "", labels: str = "", fields: str = ""
    ) -> ObjectList:
        found = self.gather(resource, keep=_itself, namespace=namespace, labels=labels, fields=fields)
        return ObjectList(found.items, found.version)

    def gather(
        self,
        resource: Resource,
        *,
        keep: Callable[[Object], Kept],
        namespace: str = "",
        labels: str = "",
        fields: str = "",
    ) -> CollectedItems[Kept]:
        query = _selectors(labels, fields) | {"limit": str(self.page_items)}
        path = _collection(resource, namespace)
        items: list[Kept] = []
        restarted = False
        while True:
            try:
                page = self._json("GET", path, query)
            except HistoryLost:
                # The pages before are of a moment that is gone. Once anew, then without pages.
                if "continue" not in query:
                    raise
                items.clear()
                query.pop("continue")
                if restarted:
                    query.pop("limit")
                restarted = True
                continue
            items += (keep(_whole(item, resource)) for item in page.get("items") or ())
            metadata = page.get("metadata") or {}
            if not metadata.get("continue"):
                return CollectedItems(tuple(items), str(metadata.get("resourceVersion", "")))
            query["continue"] = metadata["continue"]

    @contextmanager
    def watch(
        self,
        resource: Resource,
        *,
        since: str,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        for_seconds: float = 60.0,
    ) -> Iterator[Iterator[ObjectChange]]:
        if not since:
            raise ValueError("a watch begins where a list ended: since=listing.version")
        seconds = max(1, round(min(for_seconds, LONGEST_WATCH_SECONDS)))
        query = _selectors(labels, fields) | {
            "watch": "1",
            "resourceVersion": since,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(seconds),
        }
        call = self._call(
            "GET", _collection(resource, namespace), query, limit_seconds=seconds + SILENCE_SECONDS
        )
        with self.transport.stream(call) as (head, lines):
            _check(head)
            yield _changes(lines, resource)

    def create(self, item: Object, *, dry_run: bool = False) -> Object:
        resource, _, namespace = _placed(item)
        query = {"fieldManager": self.field_manager} | _dry(dry_run)
        return self._json("POST", _collection(resource, namespace), query, item)

    def apply(
        self,
        item: Object,
        *,
        force: bool = False,
        dry_run: bool = False,
        subresource: str = "",
        manager: str = "",
    ) -> Object:
        resource, name, namespace = _placed(item)
        query = {"fieldManager": manager or self.field_manager} | _dry(dry_run)
        if force:
            query["force"] = "true"
        path = _path(Ref(resource, name, namespace), subresource)
        return self._json("PATCH", path, query, item, content_type=APPLY_PATCH)

    def patch(
        self, ref: Ref, patch: JsonPatch | MergePatch, *, subresource: str = "", dry_run: bool = False
    ) -> Object:
        query = {"fieldManager": self.field_manager} | _dry(dry_run)
        content_type = MERGE_PATCH if isinstance(patch, Mapping) else JSON_PATCH
        return self._json("PATCH", _path(ref, subresource), query, patch, content_type=content_type)

    def delete(
        self,
        ref: Ref,
        *,
        uid: str = "",
        version: str = "",
        grace_seconds: int | None = None,
        propagation: Propagation = Propagation.BACKGROUND,
        dry_run: bool = False,
    ) -> None:
        options = _deletion(uid, version, grace_seconds) | {"propagationPolicy": propagation.value}
        if dry_run:
            options["dryRun"] = ["All"]
        self._json("DELETE", _path(ref), {}, options)

    def evict(
        self, pod: Ref, *, uid: str = "", grace_seconds: int | None = None, dry_run: bool = False
    ) -> None:
        options = _deletion(uid, "", grace_seconds)
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": options,
        }
        self._json("POST", _path(pod, "eviction"), _dry(dry_run), body)

    def logs(
        self,
        pod: Ref,
        *,
        container: str = "",
        lines: int,
        previous: bool = False,
        limit_bytes: int = 1_000_000,
    ) -> str:
        query = {"tailLines": str(lines), "limitBytes": str(limit_bytes)}
        if container:
            query["container"] = container
        if previous:
            query["previous"] = "true"
        reply = self._send(self._call("GET", _path(pod, "log"), query))
        return reply.body.decode(errors="replace")

    def may(
        self, verb: str, resource: Resource, *, namespace: str = "", name: str = "", subresource: str = ""
    ) -> Permission:
        asked = {
            "verb": verb,
            "group": resource.group,
            "version": resource.version,
            "resource": resource.plural,
            "namespace": namespace,
            "name": name,
            "subresource": subresource,
        }
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {key: one for key, one in asked.items() if one}},
        }
        answer = self._json("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {}, body)
        status = answer.get("status") or {}
        return Permission(bool(status.get("allowed")), str(status.get("reason") or ""))

    def rules(self, namespace: str) -> Rules:
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectRulesReview",
            "spec": {"namespace": namespace},
        }
        answer = self._json("POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", {}, body)
        return Rules((answer.get("status") or {}).get("resourceRules") or ())

    def serves(self, resource: Resource) -> bool:
        try:
            found = self._json("GET", resource.root)
        except (NotServed, NotFound):
            return False
        return any(
            one.get("name") == resource.plural and one.get("kind") == resource.kind
            for one in found.get("resources") or ()
        )

    def version(self) -> str:
        return str(self._json("GET", "/version").get("gitVersion", ""))

    def close(self) -> None:
        self.transport.close()

    def _call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Any = None,
        *,
        content_type: str = JSON,
        limit_seconds: float | None = None,
    ) -> ApiCall:
        headers = {"accept": JSON, "user-agent": f"{self.field_manager}/1"}
        data = None
        if body is not None:
            headers["content-type"] = content_type
            data = json.dumps(body).encode()
        return ApiCall(method, path, query, headers, data, limit_seconds or self.limit_seconds)

    def _send(self, call: ApiCall) -> ApiReply:
        reply = self.transport.send(call)
        _check(reply)
        return reply

    def _json(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] = {},
        body: Any = None,
        *,
        content_type: str = JSON,
    ) -> Object:
        reply = self._send(self._call(method, path, query, body, content_type=content_type))
        return _object(reply.body)


def _itself(item: Object) -> Object:
    return item


def _check(reply: ApiReply) -> None:
    if not 200 <= reply.status < 300:
        raise error_of(reply.status, reply.headers, reply.body)


def _object(body: bytes) -> Object:
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ServerFault("The answer is no JSON: is the address that of a Kubernetes API server?")
    return found


def _changes(lines: Iterator[bytes], resource: Resource) -> Iterator[ObjectChange]:
    for line in lines:
        if not line.strip():
            continue
        event = _object(line)
        item: Object = event.get("object") or {}
        if event.get("type") == "ERROR":
            raise _stream_error(item)
        try:
            kind = ChangeType(str(event.get("type")))
        except ValueError:
            raise ServerFault(f"A watch told of {event.get('type')!r}, which is unknown.") from None
        yield ObjectChange(
            kind, _whole(item, resource), str((item.get("metadata") or {}).get("resourceVersion", ""))
        )


def _stream_error(status: Object) -> KubeError:
    return error_of(int(status.get("code") or 500), {}, json.dumps(status).encode())


def _whole(item: Object, resource: Resource) -> Object:
    return {"apiVersion": resource.api_version, "kind": resource.kind} | item


def _selectors(labels: str, fields: str) -> dict[str, str]:
    return {key: one for key, one in (("labelSelector", labels), ("fieldSelector", fields)) if one}


def _dry(is_dry_run: bool) -> dict[str, str]:
    return {"dryRun": "All"} if is_dry_run else {}


def _deletion(uid: str, version: str, grace_seconds: int | None) -> Object:
    options: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
    preconditions = {key: one for key, one in (("uid", uid), ("resourceVersion", version)) if one}
    if preconditions:
        options["preconditions"] = preconditions
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    return options


def _collection(resource: Resource, namespace: str) -> str:
    if namespace and resource.is_namespaced:
        return f"{resource.root}/namespaces/{_element(namespace)}/{resource.plural}"
    return f"{resource.root}/{resource.plural}"


def _path(ref: Ref, subresource: str = "") -> str:
    if ref.resource.is_namespaced and not ref.namespace:
        raise InvalidObject(f"{ref.resource.kind} {ref.name} needs a namespace.")
    path = f"{_collection(ref.resource, ref.namespace)}/{_element(ref.name)}"
    return f"{path}/{subresource}" if subresource else path


def _element(name: str) -> str:
    """A name that cannot leave its place in a path."""
    if not _NAME.fullmatch(name) or ".." in name:
        raise InvalidObject(f"{name!r} cannot name anything in Kubernetes.")
    return quote(name)


def _placed(item: Object) -> tuple[Resource, str, str]:
    """Kind, name and namespace, of an object that says all of them."""
    found = BY_KIND.get((str(item.get("apiVersion")), str(item.get("kind"))))
    if found is None:
        raise InvalidObject(f"{item.get('apiVersion')} {item.get('kind')} is no kind that Slipway writes.")
    metadata = item.get("metadata") or {}
    return found, str(metadata.get("name") or ""), str(metadata.get("namespace") or "")
