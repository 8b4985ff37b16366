"""Reading one object or a list: selectors, pages, and which revision is read."""

import base64
import binascii
import json
import re
from typing import Any

from kube.fake.kinds import ObjectKind
from kube.fake.refusals import (
    RequestRefused,
    bad_request,
    internal,
    invalid_options,
    not_allowed,
    not_found,
    unsupported,
)
from kube.fake.selectors import field_selector, label_selector
from kube.fake.storage import HistoryExpired, ObjectStorage
from kube.fake.wire import ApiRequest, RequestTarget

Object = dict[str, Any]
RETRY_SECONDS = 1


def too_large_version(version: int, current: int) -> RequestRefused:
    said = f"Too large resource version: {version}, current: {current}"
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    details = {"causes": [cause], "retryAfterSeconds": RETRY_SECONDS}
    return RequestRefused(504, "Timeout", f"Timeout: {said}", details, {"retry-after": str(RETRY_SECONDS)})


class Reader:
    def __init__(self, storage: ObjectStorage) -> None:
        self.storage = storage

    def get(self, target: RequestTarget, request: ApiRequest) -> Object:
        version = request.query.get("resourceVersion", "")
        if version:
            self.check_version(version)
        item = self.storage.get(target.kind, target.namespace, target.name)
        if item is None:
            raise not_found(target.kind, target.name)
        return as_served(item, target)

    def check_version(self, version: str) -> int:
        if not re.fullmatch(r"\d+", version):
            raise bad_request(
                f'invalid resource version: resourceVersion: Invalid value: "{version}": strconv.ParseUint: '
                f'parsing "{version}": invalid syntax'
            )
        if int(version) > self.storage.revision:
            raise too_large_version(int(version), self.storage.revision)
        return int(version)

    def list(self, target: RequestTarget, request: ApiRequest) -> Object:
        """Raises RequestRefused."""
        query, kind = request.query, target.kind
        limit = _limit(query.get("limit", ""))
        matches = selection(kind, request)
        check_list_options(request)
        version = query.get("resourceVersion", "")
        start, revision = "", 0
        if token := query.get("continue", ""):
            revision, start = _continued(token)
            if version == "0":
                limit = 0
        elif version:
            at = self.check_version(version)
            if query.get("resourceVersionMatch") == "Exact" or (
                limit and at and "resourceVersionMatch" not in query
            ):
                revision = at
            if at == 0:
                limit = 0
        with self.storage.lock:
            if revision <= 0:
                revision = self.storage.revision
            try:
                items = self.storage.items_at(kind, target.namespace, revision)
            except HistoryExpired:
                raise self._too_old(bool(token), start) from None
        found = [item for item in items if _place(item) > start and matches(item)]
        metadata: Object = {"resourceVersion": str(revision)} | ({"continue": ""} if kind.is_custom else {})
        if limit and len(found) > limit:
            rest, found = found[limit:], found[:limit]
            metadata["continue"] = _token(revision, _place(found[-1]))
            if not (query.get("labelSelector") or query.get("fieldSelector")):
                metadata["remainingItemCount"] = len(rest)
        served = [as_served(item, target) for item in found]
        if not kind.is_custom:
            served = [
                {key: one for key, one in item.items() if key not in ("kind", "apiVersion")}
                for item in served
            ]
        api_version = f"{kind.group}/{target.version}" if kind.group else target.version
        return {"kind": kind.list_kind, "apiVersion": api_version, "metadata": metadata, "items": served}

    def _too_old(self, is_continued: bool, start: str) -> RequestRefused:
        if not is_continued:
            return RequestRefused(410, "Expired", "The resourceVersion for the provided list is too old.")
        said = (
            "The provided continue parameter is too old to display a consistent list result. You can "
            "start a new "
            "list without the continue parameter, or use the continue token in this response to retrieve the "
            "remainder of the results. Continuing with the provided token results in an inconsistent list - "
            "objects that were created, modified, or deleted between the time the first chunk was "
            "returned and "
            "now may show up in the list."
        )
        return RequestRefused(410, "Expired", said, list_metadata={"continue": _token(-1, start)})


def _place(item: Object) -> str:
    metadata = item["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}"


def _token(revision: int, start: str) -> str:
    written = json.dumps({"v": "meta.k8s.io/v1", "rv": revision, "start": start})
    return base64.urlsafe_b64encode(written.encode()).decode().rstrip("=")


def _continued(token: str) -> tuple[int, str]:
    try:
        read = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        return int(read["rv"]), str(read["start"])
    except (ValueError, KeyError, TypeError, binascii.Error) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from error


def _limit(written: str) -> int:
    if written and not re.fullmatch(r"-?\d+", written):
        raise bad_request(f'strconv.ParseInt: parsing "{written}": invalid syntax')
    return max(0, int(written or 0))


def check_list_options(request: ApiRequest) -> None:
    query = request.query
    match, version = query.get("resourceVersionMatch"), query.get("resourceVersion", "")
    if match is None:
        return
    place = "resourceVersionMatch"
    if match not in ("Exact", "NotOlderThan"):
        raise invalid_options(
            "ListOptions", unsupported(place, json.dumps(match), ["Exact", "NotOlderThan", ""])
        )
    if query.get("continue"):
        why = "resourceVersionMatch is forbidden when continue is provided"
        raise invalid_options("ListOptions", not_allowed(place, why))
    if not version:
        why = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        raise invalid_options("ListOptions", not_allowed(place, why))
    if match == "Exact" and version == "0":
        why = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        raise invalid_options("ListOptions", not_allowed(place, why))


def selection(kind: ObjectKind, request: ApiRequest) -> Any:
    """Whether an object is meant by the request's selectors. Raises RequestRefused."""
    by_label = label_selector(request.query.get("labelSelector", ""))
    by_field = field_selector(kind, request.query.get("fieldSelector", ""))
    return lambda item: by_label(item) and by_field(item)


def as_served(item: Object, target: RequestTarget) -> Object:
    """Return the item in the requested version."""
    group = target.kind.group
    return item | {"apiVersion": f"{group}/{target.version}" if group else target.version}


def check_watch_version(version: str) -> int:
    if not re.fullmatch(r"\d+", version):
        wrong = f'strconv.ParseUint: parsing "{version}": invalid syntax'
        raise internal(f'resourceVersion: Invalid value: "{version}": {wrong}')
    return int(version)
