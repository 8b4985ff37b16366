"""Translation of an API server's answers into our errors."""

import json
from collections.abc import Mapping
from typing import Any

from kube.errors import (
    AlreadyExists,
    ApiForbidden,
    BodyFault,
    EvictionRefused,
    HistoryLost,
    InvalidObject,
    KubeError,
    NamespaceEnding,
    NamespaceQuotaExceeded,
    NotAuthenticated,
    NotFound,
    NotServed,
    ObjectChanged,
    OwnedByOthers,
    OwnedField,
    ServerFault,
    Throttled,
)

MOST_TEXT = 2_000
NO_TYPED_PATCH = "failed to create typed patch object"
TOO_LARGE_FOR_ETCD = "etcdserver: request is too large"
MANY_BUDGETS = "This pod has more than one PodDisruptionBudget"


def error_of(status: int, headers: Mapping[str, str], body: bytes) -> KubeError:
    """`headers` by lower-case names. Of an answer that is none of success."""
    said = _status_of(body)
    message = str(said.get("message") or body.decode(errors="replace").strip() or f"HTTP {status}")[
        :MOST_TEXT
    ]
    details: Mapping[str, Any] = said.get("details") or {}
    causes: list[Mapping[str, Any]] = details.get("causes") or []
    if status == 401:
        return NotAuthenticated(
            "The cluster does not accept the credential: it is wrong, revoked or expired."
        )
    if status == 403:
        return _forbidden(message, causes)
    if status == 404:
        # Of a missing object the answer has its name.
        return NotFound(message) if details.get("name") else NotServed(message)
    if status == 409:
        return _conflict(message, said, causes)
    if status == 410:
        return HistoryLost(message)
    if status == 429:
        return _too_many(message, headers, details, causes)
    if status in (400, 405, 406, 413, 415, 422) or (status == 500 and _is_about_the_body(said, message)):
        return InvalidObject(
            message, tuple(BodyFault(one.get("field", ""), one.get("message", "")) for one in causes)
        )
    return ServerFault(message)


def _status_of(body: bytes) -> Mapping[str, Any]:
    """Some are text, some are a Status without kind."""
    try:
        said = json.loads(body)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _forbidden(message: str, causes: list[Mapping[str, Any]]) -> KubeError:
    if any(one.get("reason") == "NamespaceTerminating" for one in causes):
        return NamespaceEnding(message)
    if "exceeded quota:" in message:
        return NamespaceQuotaExceeded(message)
    return ApiForbidden(message)


def _conflict(message: str, said: Mapping[str, Any], causes: list[Mapping[str, Any]]) -> KubeError:
    if said.get("reason") == "AlreadyExists":
        return AlreadyExists(message, is_going=message.startswith("object is being deleted"))
    claims = [
        OwnedField(one.get("message", "").removeprefix("conflict with "), one.get("field", ""))
        for one in causes
        if one.get("reason") == "FieldManagerConflict"
    ]
    return OwnedByOthers(message, tuple(claims)) if claims else ObjectChanged(message)


def _too_many(
    message: str, headers: Mapping[str, str], details: Mapping[str, Any], causes: list[Mapping[str, Any]]
) -> KubeError:
    written = details.get("retryAfterSeconds") or headers.get("retry-after")
    try:
        seconds = float(written) if written is not None else None
    except ValueError:
        seconds = None
    if budget := next((one for one in causes if one.get("reason") == "DisruptionBudget"), None):
        return EvictionRefused(f"{message} {budget.get('message', '')}".strip(), retry_after_seconds=seconds)
    return Throttled(message, retry_after_seconds=seconds)


def _is_about_the_body(said: Mapping[str, Any], message: str) -> bool:
    """The API server has no better code for these (recorded: topics 1 and 8)."""
    return not said.get("reason") and message.startswith((NO_TYPED_PATCH, MANY_BUDGETS, TOO_LARGE_FOR_ETCD))
