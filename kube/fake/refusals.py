"""Refusals of the API server: `Status` bodies, as recorded."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from kube.fake.causes import StatusCause
from kube.fake.kinds import ObjectKind


@dataclass
class RequestRefused(Exception):
    """An answer that ends the request."""

    code: int
    reason: str
    message: str
    details: dict[str, Any] | None = None
    headers: dict[str, str] = field(default_factory=dict)
    text: str | None = None
    """Of an answer that is no JSON."""
    list_metadata: dict[str, Any] = field(default_factory=dict)

    def body(self) -> dict[str, Any] | str:
        if self.text is not None:
            return self.text
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.list_metadata,
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        return status | {"code": self.code}


def details_of(kind: ObjectKind, name: str = "", *, by_plural: bool = True, **more: Any) -> dict[str, Any]:
    details: dict[str, Any] = {"name": name} if name else {}
    if kind.group:
        details["group"] = kind.group
    return details | {"kind": kind.plural if by_plural else kind.kind} | more


def not_found(kind: ObjectKind, name: str) -> RequestRefused:
    return RequestRefused(404, "NotFound", f'{kind.resource} "{name}" not found', details_of(kind, name))


def already_exists(kind: ObjectKind, name: str, *, is_going: bool = False) -> RequestRefused:
    going = "object is being deleted: " if is_going else ""
    return RequestRefused(
        409, "AlreadyExists", f'{going}{kind.resource} "{name}" already exists', details_of(kind, name)
    )


def modified(kind: ObjectKind, name: str) -> RequestRefused:
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(kind, name, why)


def conflict(kind: ObjectKind, name: str, why: str) -> RequestRefused:
    said = f'Operation cannot be fulfilled on {kind.resource} "{name}": {why}'
    return RequestRefused(409, "Conflict", said, details_of(kind, name))


def precondition(kind: ObjectKind, name: str, what: str, wanted: str, found: str) -> RequestRefused:
    what_happened = "deleted and then recreated" if what == "UID" else "modified"
    said = (
        f'Operation cannot be fulfilled on {kind.qualified} "{name}": the {what} in the precondition '
        f"({wanted}) does not match the {what} in record ({found}). The object might have been "
        f"{what_happened}"
    )
    return RequestRefused(409, "Conflict", said, details_of(kind, name, by_plural=False))


def forbidden(kind: ObjectKind, name: str, why: str, causes: Iterable[StatusCause] = ()) -> RequestRefused:
    named = f' "{name}"' if name else ""
    details = details_of(kind, name)
    if found := [cause.as_json() for cause in causes]:
        details["causes"] = found
    return RequestRefused(403, "Forbidden", f"{kind.resource}{named} is forbidden: {why}", details)


def invalid(
    kind: ObjectKind, name: str, causes: list[StatusCause], *, by_plural: bool = False
) -> RequestRefused:
    title = kind.resource if by_plural else kind.qualified
    details = details_of(kind, name, by_plural=by_plural, causes=[cause.as_json() for cause in causes])
    return RequestRefused(422, "Invalid", f'{title} "{name}" is invalid: {_said(causes)}', details)


def invalid_options(options: str, cause: StatusCause) -> RequestRefused:
    details = {"group": "meta.k8s.io", "kind": options, "causes": [cause.as_json()]}
    return RequestRefused(422, "Invalid", f'{options}.meta.k8s.io "" is invalid: {_said([cause])}', details)


def _said(causes: list[StatusCause]) -> str:
    seen = list(dict.fromkeys(f"{cause.field}: {cause.message}" for cause in causes))
    return seen[0] if len(seen) == 1 else f"[{', '.join(seen)}]"


def bad_request(message: str) -> RequestRefused:
    return RequestRefused(400, "BadRequest", message)


def internal(message: str) -> RequestRefused:
    """A fault that the server has no reason for: 500 with the text alone."""
    return RequestRefused(500, "", message)


def unsupported_media(
    message: str = "415: Unsupported Media Type", *, is_bare: bool = True
) -> RequestRefused:
    return RequestRefused(415, "UnsupportedMediaType", message, {} if is_bare else None)


def wrong_method() -> RequestRefused:
    return RequestRefused(
        405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {}
    )


def no_such_resource() -> RequestRefused:
    return RequestRefused(404, "NotFound", "the server could not find the requested resource", {})


def no_such_path() -> RequestRefused:
    return RequestRefused(404, "", "404 page not found", text="404 page not found\n")


def success(kind: ObjectKind, name: str, uid: str) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details_of(kind, name, uid=uid),
    }


def required(place: str, why: str = "") -> StatusCause:
    return StatusCause("FieldValueRequired", "Required value" + (f": {why}" if why else ""), place)


def wrong_value(place: str, value: str, why: str) -> StatusCause:
    """`value` as JSON."""
    return StatusCause("FieldValueInvalid", f"Invalid value: {value}: {why}", place)


def immutable(place: str, value: str) -> StatusCause:
    return wrong_value(place, value, "field is immutable")


def too_long(place: str, most: int) -> StatusCause:
    return StatusCause("FieldValueTooLong", f"Too long: may not be more than {most} bytes", place)


def unsupported(place: str, value: str, supported: Iterable[str]) -> StatusCause:
    listed = ", ".join(f'"{one}"' for one in supported)
    return StatusCause(
        "FieldValueNotSupported", f"Unsupported value: {value}: supported values: {listed}", place
    )


def not_allowed(place: str, why: str) -> StatusCause:
    return StatusCause("FieldValueForbidden", f"Forbidden: {why}", place)
