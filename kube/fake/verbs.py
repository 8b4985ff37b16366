"""POST, PUT, PATCH and DELETE of objects and their subresources: from request to answer."""

import json
from typing import Any

from kube.fake.bodies import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    apply_body,
    check_delete_options,
    check_fields,
    check_options,
    object_body,
    patch_body,
)
from kube.fake.defaults import Object
from kube.fake.deleting import Deleter
from kube.fake.fields import written
from kube.fake.kinds import ObjectKind
from kube.fake.ownership import (
    APPLY,
    BEFORE_FIRST_APPLY,
    UPDATE,
    FieldConflict,
    FieldOwnership,
    Manager,
    applied,
    conflict_text,
    managers_of,
    not_written,
    owned_before_first_apply,
)
from kube.fake.patching import NoMergeKey, PatchRefused, json_patch, merge_patch, strategic_merge
from kube.fake.reading import Reader, as_served, selection
from kube.fake.refusals import (
    RequestRefused,
    bad_request,
    conflict,
    internal,
    not_found,
    unsupported_media,
)
from kube.fake.scale import scale_of, scaled
from kube.fake.storage import copied
from kube.fake.typed import apply_fault
from kube.fake.warnings import warnings_of
from kube.fake.wire import ApiRequest, ApiResponse, RequestTarget
from kube.fake.writing import WriteOptions, Writer, WriteResult

PATCHES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)


class Verbs:
    def __init__(self, writer: Writer, reader: Reader, deleter: Deleter) -> None:
        self.writer = writer
        self.reader = reader
        self.deleter = deleter
        self.storage = writer.storage

    def post(self, target: RequestTarget, request: ApiRequest) -> ApiResponse:
        check_options(request, "CreateOptions")
        warnings: list[str] = []
        item = object_body(request, target.kind, warnings)
        written = self.writer.create(target.kind, target.namespace, item, _by(request, target))
        return _answer(written, target, warnings)

    def put(self, target: RequestTarget, request: ApiRequest) -> ApiResponse:
        check_options(request, "UpdateOptions")
        warnings: list[str] = []
        kind, by = target.kind, _by(request, target, is_put=True)
        if target.subresource == "scale":
            return self._scale(target, lambda _: json.loads(request.body), by)
        item = object_body(request, kind, warnings)
        with self.storage.lock:
            old = self.storage.get(kind, target.namespace, target.name)
            if old is None:
                if not kind.creates_on_update or target.subresource:
                    raise not_found(kind, target.name)
                item.setdefault("metadata", {}).setdefault("name", target.name)
                item["metadata"].pop("resourceVersion", None)
                written = self.writer.create(kind, target.namespace, item, by)
            else:
                written = self.writer.replace(kind, target.namespace, old, item, by)
        return _answer(written, target, warnings)

    def patch(self, target: RequestTarget, request: ApiRequest) -> ApiResponse:
        kind = target.kind
        if request.content_type not in PATCHES:
            raise unsupported_media()
        if kind.is_custom and request.content_type == STRATEGIC_PATCH:
            accepted = ", ".join((JSON_PATCH, MERGE_PATCH, APPLY_PATCH))
            said = "the body of the request was in an unknown format - accepted media types include: "
            raise unsupported_media(said + accepted, is_bare=False)
        check_options(request, "PatchOptions")
        warnings: list[str] = []
        by = _by(request, target)
        if request.content_type == APPLY_PATCH:
            return self._apply(target, request, by, warnings)
        patch = patch_body(request)
        if target.subresource == "scale":
            return self._scale(target, lambda old: _patched(old, patch, request.content_type, kind), by)

        def change(old: Object) -> Object:
            new = _patched(old, patch, request.content_type, kind)
            check_fields(request, kind, new, warnings)
            return new

        return _answer(self.writer.update(kind, target.namespace, target.name, change, by), target, warnings)

    def _apply(
        self, target: RequestTarget, request: ApiRequest, by: WriteOptions, warnings: list[str]
    ) -> ApiResponse:
        kind = target.kind
        wish = apply_body(request, warnings)
        if target.subresource == "scale":
            return self._scale(
                target, lambda _: wish, by, is_apply=True, force=request.query.get("force") == "true"
            )
        group, _, version = str(wish.get("apiVersion", "")).rpartition("/")
        if (group, wish.get("kind")) != (kind.group, kind.kind) or version not in {
            kind.version
        } | kind.also_served:
            raise bad_request(f"invalid object type: {group}/{version}, Kind={wish.get('kind', '')}")
        metadata = wish["metadata"] = wish.get("metadata") or {}
        if metadata.get("managedFields"):
            raise bad_request("metadata.managedFields must be nil")
        if kind.is_namespaced and metadata.get("namespace") not in (None, "", target.namespace):
            raise bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        manager = Manager(by.manager, APPLY, kind.api_version, by.subresource)
        with self.storage.lock:
            live = self.storage.get(kind, target.namespace, target.name)
            if live is None:
                return _answer(self._apply_new(target, wish, manager, by), target, warnings)
            self._check_typed(kind, target, wish)
            result, owners = self._applied(kind, live, wish, manager, request.query.get("force") == "true")
            for key in ("uid", "resourceVersion", "name"):
                if key in metadata:
                    result["metadata"][key] = metadata[key]
            stored = self.writer.replace(kind, target.namespace, live, result, by, owners)
        return _answer(stored, target, warnings)

    def _applied(
        self, kind: ObjectKind, live: Object, wish: Object, manager: Manager, force: bool
    ) -> tuple[Object, Any]:
        hidden, now = not_written(kind, manager.subresource), self.writer.clock.stamp()
        owners = managers_of(live["metadata"])
        if not owners:
            before = Manager(BEFORE_FIRST_APPLY, UPDATE, kind.api_version)
            if fields := owned_before_first_apply(live, kind.shape, not_written(kind, "")):
                owners[before] = FieldOwnership(fields, now)
        try:
            return applied(
                copied(live),
                wish,
                owners,
                kind.shape,
                manager=manager,
                force=force,
                now=now,
                hidden=hidden,
            )
        except FieldConflict as error:
            raise _refused(error) from error

    def _apply_new(
        self, target: RequestTarget, wish: Object, manager: Manager, by: WriteOptions
    ) -> WriteResult:
        kind, metadata = target.kind, wish["metadata"]
        if target.subresource:
            raise not_found(kind, target.name)
        if metadata.get("uid"):
            raise conflict(
                kind,
                target.name,
                f"uid mismatch: the provided object specified uid {metadata['uid']}, and no existing "
                f"object was found",
            )
        version = metadata.get("resourceVersion") or ""
        if version and not version.isdigit():
            raise internal(f'strconv.ParseUint: parsing "{version}": invalid syntax')
        self._check_typed(kind, target, wish)
        if metadata.setdefault("name", target.name) != target.name:
            raise bad_request(
                f"the name of the object ({metadata['name']}) does not match the name on the URL "
                f"({target.name})"
            )
        hidden, now = not_written(kind, ""), self.writer.clock.stamp()
        item, owners = applied(
            None, wish, {}, kind.shape, manager=manager, force=False, now=now, hidden=hidden
        )
        return self.writer.create(kind, target.namespace, item, by, owners)

    def _check_typed(self, kind: ObjectKind, target: RequestTarget, wish: Object) -> None:
        if fault := apply_fault(wish, kind.shape):
            place = f"{target.namespace}/{target.name}"
            raise internal(
                f"failed to create typed patch object ({place}; {kind.group}/{kind.version}, "
                f"Kind={kind.kind}): {fault}"
            )

    def _scale(
        self,
        target: RequestTarget,
        change: Any,
        by: WriteOptions,
        *,
        is_apply: bool = False,
        force: bool = False,
    ) -> ApiResponse:
        kind = target.kind
        with self.storage.lock:
            live = self.storage.get(kind, target.namespace, target.name)
            if live is None:
                raise not_found(kind, target.name)
            new = scaled(live, change(scale_of(kind, live)))
            if not is_apply:
                written = self.writer.replace(kind, target.namespace, live, new, by)
                return ApiResponse(200, scale_of(kind, written.item))
            manager = Manager(by.manager, APPLY, kind.api_version, "scale")
            wish = {"spec": {"replicas": new["spec"]["replicas"]}}
            result, owners = self._applied(kind, live, wish, manager, force)
            written = self.writer.replace(kind, target.namespace, live, result, by, owners)
            return ApiResponse(200, scale_of(kind, written.item))

    def delete(self, target: RequestTarget, request: ApiRequest) -> ApiResponse:
        options = self._delete_options(request)
        dry_runs = options.get("dryRun") or []
        body, status = self.deleter.delete(
            target.kind, target.namespace, target.name, options, is_dry_run=dry_runs == ["All"]
        )
        if target.kind.orphans_by_default and options.get("propagationPolicy") is None:
            return ApiResponse(status, body, {"warning": _warnings([ORPHANS])})
        return ApiResponse(status, body)

    def delete_collection(self, target: RequestTarget, request: ApiRequest) -> ApiResponse:
        options = self._delete_options(request)
        matches = selection(target.kind, request)
        listed = self.reader.list(target, request)
        for item in self.storage.items(target.kind, target.namespace):
            if matches(item):
                name, namespace = item["metadata"]["name"], item["metadata"].get("namespace", "")
                self.deleter.delete(target.kind, namespace, name, options, is_dry_run=request.is_dry_run)
        return ApiResponse(200, listed)

    def _delete_options(self, request: ApiRequest) -> Object:
        try:
            options: Object = json.loads(request.body) if request.body else {}
        except ValueError as error:
            raise bad_request(f"error decoding DeleteOptions: {error}") from error
        for key in ("propagationPolicy", "gracePeriodSeconds", "orphanDependents"):
            if key in request.query:
                said = request.query[key]
                options[key] = said if key == "propagationPolicy" else json.loads(said)
        if "dryRun" in request.query:
            options["dryRun"] = [request.query["dryRun"]]
        check_delete_options(options, options.get("dryRun") or [])
        return options


ORPHANS = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to "
    "remove them or "
    "set propagationPolicy=Orphan to suppress this warning"
)


def _patched(old: Object, patch: Any, content_type: str, kind: ObjectKind) -> Object:
    try:
        if content_type == JSON_PATCH:
            new = json_patch(old, patch)
        elif content_type == MERGE_PATCH:
            new = merge_patch(old, patch)
        else:
            new = strategic_merge(old, patch, kind.shape)
    except PatchRefused:
        said = "the server rejected our request due to an error in our request"
        raise RequestRefused(422, "Invalid", said, {}) from None
    except NoMergeKey as error:
        raise internal(str(error)) from error
    return new if isinstance(new, dict) else {}


def _refused(error: FieldConflict) -> RequestRefused:
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {manager}", "field": written(path)}
        for manager, path in error.conflicts
    ]
    return RequestRefused(409, "Conflict", conflict_text(error.conflicts), {"causes": causes})


def _by(request: ApiRequest, target: RequestTarget, *, is_put: bool = False) -> WriteOptions:
    return WriteOptions(
        request.manager,
        is_dry_run=request.is_dry_run,
        subresource=target.subresource,
        is_put=is_put,
    )


def _warnings(said: list[str]) -> str:
    return ", ".join("299 - " + json.dumps(one) for one in said)


def _answer(written: WriteResult, target: RequestTarget, warnings: list[str]) -> ApiResponse:
    said = warnings + warnings_of(written.item)
    headers = {"warning": _warnings(said)} if said else {}
    return ApiResponse(201 if written.is_new else 200, as_served(written.item, target), headers)
