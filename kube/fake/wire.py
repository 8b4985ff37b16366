"""Requests and answers of the fake API server, and how an address is read."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import unquote

from kube.fake.kinds import ObjectKind
from kube.fake.refusals import RequestRefused, no_such_path, no_such_resource, not_found, wrong_method

ADMINS = "system:masters"


@dataclass(frozen=True)
class RequestUser:
    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""


ADMIN = RequestUser("admin", (ADMINS, "system:authenticated"))
UNKNOWN = RequestUser("")
"""Whose token nobody knows."""
ANONYMOUS = RequestUser("system:anonymous", ("system:unauthenticated",))


@dataclass(frozen=True)
class ApiRequest:
    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    """Names in lower case."""
    body: bytes = b""
    user: RequestUser = ADMIN

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip()

    @property
    def manager(self) -> str:
        """Whoever writes: as it says, or the user agent up to its slash."""
        return self.query.get("fieldManager") or self.headers.get("user-agent", "").partition("/")[0]

    @property
    def is_dry_run(self) -> bool:
        return self.query.get("dryRun") == "All"


@dataclass
class ApiResponse:
    status: int
    body: Any
    headers: dict[str, str] = field(default_factory=dict)

    def as_bytes(self) -> bytes:
        return self.body.encode() if isinstance(self.body, str) else json.dumps(self.body).encode()


def refusal(refused: RequestRefused) -> ApiResponse:
    kind = "application/json" if refused.text is None else "text/plain"
    return ApiResponse(refused.code, refused.body(), {"content-type": kind} | refused.headers)


class RequestTarget(NamedTuple):
    kind: ObjectKind
    namespace: str
    name: str
    subresource: str
    version: str
    """As in the address: one of those that the group serves."""


def target_of(
    path: str, method: str, kinds: Mapping[tuple[str, str], ObjectKind], groups: set[str]
) -> RequestTarget:
    """Read the target of `/apis/apps/v1/namespaces/ns/deployments/name/scale`. Raises RequestRefused."""
    parts = [unquote(part) for part in path.rstrip("/").split("/")[1:]]
    group, version, rest = ("", parts[1], parts[2:]) if parts[0] == "api" else (parts[1], parts[2], parts[3:])
    if group not in groups:
        raise no_such_path()
    if rest and rest[0] == "watch":
        rest = rest[1:]
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces" and not _is_subresource_of_namespace(rest):
        namespace, rest = rest[1], rest[2:]
    kind = kinds.get((group, rest[0] if rest else ""))
    if kind is None or version not in {kind.version} | kind.also_served or not all(rest) or len(rest) > 3:
        raise no_such_resource()
    name, subresource = (*rest[1:], "", "")[:2]
    if subresource and subresource not in kind.subresources:
        raise not_found(kind, name) if kind.is_custom else no_such_resource()
    if kind.is_namespaced != bool(namespace):
        if not kind.is_namespaced or name:
            raise no_such_resource()
        if method not in ("GET", "DELETE"):
            raise wrong_method()
    return RequestTarget(kind, namespace, name, subresource, version)


def _is_subresource_of_namespace(rest: list[str]) -> bool:
    return len(rest) == 3 and rest[2] in ("status", "finalize")
