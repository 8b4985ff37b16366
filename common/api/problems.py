"""Every error over REST is an `application/problem+json` document (RFC 9457)."""

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import PermissionDenied
from django.core.exceptions import ValidationError as DjangoValidationError
from django.core.signals import got_request_exception
from django.db import DataError, IntegrityError, OperationalError
from django.db.models import ProtectedError
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _
from rest_framework import exceptions
from rest_framework.response import Response

from common import errors, request_id
from common.api.json import dumps
from common.sentences import listed, row_kind

logger = logging.getLogger(__name__)

CONTENT_TYPE = "application/problem+json"
BODY = "body"
"""Key in `errors` of what concerns no single field."""


@dataclass(frozen=True, slots=True)
class ProblemType:
    slug: str
    status: int
    title: str

    @property
    def uri(self) -> str:
        return f"urn:slipway:problem:{self.slug}"


_kinds: dict[type[Exception], ProblemType] = {}


def register(error: type[Exception], *, status: int, title: str, slug: str) -> None:
    """Answer `error`, and those subclasses of it that are not registered, with this kind of problem."""
    _kinds[error] = ProblemType(slug, status, title)


def kind_of(error: Exception) -> ProblemType | None:
    """Return the kind of problem that an error is; None for one that nobody foresaw."""
    kind = next((_kinds[base] for base in type(error).__mro__ if base in _kinds), None)
    if kind is None and isinstance(error, exceptions.APIException):
        code = str(error.default_code)
        return ProblemType(code.replace("_", "-"), error.status_code, code.replace("_", " ").capitalize())
    return kind


register(errors.SlipwayError, status=409, title=_("Cannot be done"), slug="refused")
register(errors.Missing, status=404, title=_("Not found"), slug="not-found")
register(errors.NotAllowed, status=403, title=_("Permission denied"), slug="not-allowed")
register(errors.Conflict, status=409, title=_("Conflict with the current state"), slug="conflict")
register(errors.Stale, status=412, title=_("Changed by someone else"), slug="stale")
register(errors.Invalid, status=400, title=_("Invalid request"), slug="invalid")
register(errors.Unavailable, status=503, title=_("Service unavailable"), slug="unavailable")
register(Http404, status=404, title=_("Not found"), slug="not-found")
register(PermissionDenied, status=403, title=_("Permission denied"), slug="not-allowed")
register(DjangoValidationError, status=400, title=_("Invalid request"), slug="invalid")
register(IntegrityError, status=409, title=_("Conflict with the current state"), slug="conflict")
register(DataError, status=400, title=_("Invalid request"), slug="invalid")
register(OperationalError, status=503, title=_("Service unavailable"), slug="unavailable")
register(exceptions.ValidationError, status=400, title=_("Invalid request"), slug="invalid")
register(exceptions.ParseError, status=400, title=_("Malformed request"), slug="malformed")
register(
    exceptions.NotAuthenticated, status=401, title=_("Authentication required"), slug="not-authenticated"
)
register(
    exceptions.AuthenticationFailed, status=401, title=_("Authentication required"), slug="not-authenticated"
)
register(exceptions.PermissionDenied, status=403, title=_("Permission denied"), slug="not-allowed")
register(exceptions.NotFound, status=404, title=_("Not found"), slug="not-found")
register(exceptions.MethodNotAllowed, status=405, title=_("Method not allowed"), slug="method-not-allowed")
register(exceptions.NotAcceptable, status=406, title=_("Not acceptable"), slug="not-acceptable")
register(
    exceptions.UnsupportedMediaType,
    status=415,
    title=_("Unsupported media type"),
    slug="unsupported-media-type",
)
register(exceptions.Throttled, status=429, title=_("Too many requests"), slug="throttled")

UNEXPECTED = ProblemType("unexpected", 500, _("Internal error"))


def document(
    kind: ProblemType, *, detail: str, instance: str, fields: Mapping[str, Sequence[str]] | None = None
) -> dict[str, Any]:
    """The members of RFC 9457, `errors` where fields are at fault, and the id to look for in the log."""
    problem: dict[str, Any] = {
        "type": kind.uri,
        "title": gettext(kind.title),
        "status": kind.status,
        "detail": detail,
        "instance": instance,
        "request_id": request_id.current(),
    }
    if fields:
        problem["errors"] = {name: list(sentences) for name, sentences in fields.items()}
    return problem


def answer(error: Exception, *, request: HttpRequest) -> Response:
    """The problem for `error`. What nobody foresaw becomes a 500 that names the line in the log, no more."""
    kind = kind_of(error)
    if kind is None:
        return _unexpected(error, request)
    if isinstance(error, IntegrityError | DataError | OperationalError):
        logger.warning("%s %s: %s", request.method, request.path, error, exc_info=error)
    fields = _fields(error)
    response = Response(
        document(kind, detail=_detail(error, fields), instance=request.path, fields=fields),
        status=kind.status,
        content_type=CONTENT_TYPE,
    )
    for name, value in _headers(error).items():
        response[name] = value
    return response


def http_answer(error: Exception, *, request: HttpRequest) -> HttpResponse:
    """The problem for `error`, where REST framework is not at work."""
    found = answer(error, request=request)
    response = HttpResponse(dumps(found.data), status=found.status_code, content_type=CONTENT_TYPE)
    for name, value in _headers(error).items():
        response[name] = value
    return response


def exception_handler(error: Exception, context: Mapping[str, Any]) -> Response:
    """REST framework's hook (`EXCEPTION_HANDLER`)."""
    return answer(error, request=context["request"]._request)


def _unexpected(error: Exception, request: HttpRequest) -> Response:
    logger.error("%s %s failed", request.method, request.path, exc_info=error)
    got_request_exception.send(sender=None, request=request)
    return Response(
        document(UNEXPECTED, detail=logged(), instance=request.path), status=500, content_type=CONTENT_TYPE
    )


def logged() -> str:
    return gettext("It was logged under request id %(id)s.") % {"id": request_id.current()}


def _detail(error: Exception, fields: Mapping[str, Sequence[str]]) -> str:
    match error:
        case Http404() | exceptions.NotFound():
            return gettext("It does not exist, or you don't have permission to see it.")
        case ProtectedError():
            kinds = sorted({row_kind(row) for row in error.protected_objects})
            return gettext("It is still in use by %(kinds)s.") % {"kinds": listed(kinds)}
        case IntegrityError():
            return gettext("Something with these values exists already, or refers to something that is gone.")
        case DataError():
            return gettext("A value is too long, too large, or holds a character that cannot be stored.")
        case OperationalError():
            return gettext("The database does not respond. Try again in a moment.")
        case exceptions.ValidationError() | DjangoValidationError():
            if set(fields) == {BODY}:
                return " ".join(fields[BODY])
            return gettext("See `errors` for what is wrong with: %(fields)s.") % {"fields": ", ".join(fields)}
        case exceptions.APIException():
            return str(error.detail)
    return str(error)


def _fields(error: Exception) -> dict[str, list[str]]:
    match error:
        case errors.Invalid():
            return error.fields
        case exceptions.ValidationError():
            return flattened(error.detail)
        case DjangoValidationError():
            if hasattr(error, "error_dict"):
                return {
                    BODY if name == "__all__" else name: said for name, said in error.message_dict.items()
                }
            return {BODY: error.messages}
    return {}


def flattened(detail: Any, prefix: str = "") -> dict[str, list[str]]:
    """REST framework's nested error detail as `{"files.0.path": ["sentence"]}`."""
    if isinstance(detail, Mapping):
        parts = detail.items()
    elif isinstance(detail, list) and any(isinstance(item, Mapping | list) for item in detail):
        parts = enumerate(detail)  # type: ignore[assignment]
    else:
        return {prefix or BODY: [str(item) for item in (detail if isinstance(detail, list) else [detail])]}
    flat: dict[str, list[str]] = {}
    for name, part in parts:
        if part:
            flat |= flattened(part, f"{prefix}.{name}" if prefix else str(name))
    return flat


def _headers(error: Exception) -> dict[str, str]:
    headers = {}
    if challenge := getattr(error, "auth_header", None):
        headers["WWW-Authenticate"] = challenge
    wait_s = getattr(error, "retry_after_s", None) or getattr(error, "wait", None)
    if wait_s or isinstance(error, OperationalError):
        headers["Retry-After"] = str(math.ceil(wait_s or 1))
    return headers
