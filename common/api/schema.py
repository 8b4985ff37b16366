"""What OpenAPI says about every endpoint, drawn from the endpoint itself."""

from typing import Any

from django.conf import settings
from django.http import Http404
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import get_doc
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, extend_schema_serializer
from rest_framework import permissions, serializers
from rest_framework.request import Request

from common.api import problems
from common.api.views import CreateEndpoint, DestroyEndpoint, Endpoint, PutEndpoint, UpdateEndpoint
from common.revisions import Revised


class MayReadSchema(permissions.BasePermission):
    """Lets those read the schema whom SLIPWAY_API_SCHEMA names."""

    def has_permission(self, request: Request, view: object) -> bool:
        if settings.SLIPWAY_API_SCHEMA == "off":
            raise Http404
        return settings.SLIPWAY_API_SCHEMA == "open" or bool(request.user and request.user.is_authenticated)


@extend_schema_serializer(
    examples=[
        OpenApiExample(
            "A field is wrong",
            media_type=problems.CONTENT_TYPE,
            value={
                "type": "urn:slipway:problem:invalid",
                "title": "Invalid request",
                "status": 400,
                "detail": "See `errors` for what is wrong with: name.",
                "instance": "/api/v1/teams/",
                "request_id": "6f1c0d3e9a534d57b0e1f0c6f0a1c2d3",
                "errors": {"name": ["This field is required."]},
            },
        )
    ]
)
class ProblemSerializer(serializers.Serializer[Any]):
    """An error (RFC 9457)."""

    type = serializers.CharField(help_text="Problem type; stable.")
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField(help_text="Explanation with advice, for people.")
    instance = serializers.CharField(help_text="Path of the request.")
    request_id = serializers.CharField(help_text="Also in `X-Request-ID` and the server's log.")
    errors = serializers.DictField(  # type: ignore[assignment]
        child=serializers.ListField(child=serializers.CharField()),
        required=False,
        help_text="Messages by field; `body` for the request as a whole.",
    )


_PROBLEMS = {
    400: "The request is invalid.",
    401: "No token or session, or one that is no longer valid.",
    403: "Permission denied.",
    404: "Not found, or you don't have permission to see it.",
    409: "Conflict with the current state, or the Idempotency-Key was used with another body.",
    412: "The object changed since the ETag of If-Match.",
}


def with_exact_alternatives(result: Any, **_: Any) -> Any:
    """`oneOf` only where one alternative alone can match: spectacular's hook, after all others."""
    if isinstance(result, list):
        return [with_exact_alternatives(one) for one in result]
    if not isinstance(result, dict):
        return result
    shown = {name: with_exact_alternatives(one) for name, one in result.items()}
    match shown.get("oneOf"):
        case list(alternatives) if {} in alternatives:
            del shown["oneOf"]
        case list(alternatives) if sum(one.get("type") == "string" for one in alternatives) > 1:
            shown["anyOf"] = shown.pop("oneOf")
    return shown


class Schema(AutoSchema):
    def get_summary(self) -> str | None:
        doc = get_doc(getattr(self.view, self._action, None))
        return doc.splitlines()[0].rstrip(".") if doc else None

    @property
    def _action(self) -> str:
        return getattr(self.view, "action", None) or self.method.lower()

    @property
    def _revised(self) -> bool:
        queryset = getattr(self.view, "queryset", None)
        return queryset is not None and issubclass(queryset.model, Revised)

    def get_request_serializer(self) -> Any:
        if isinstance(self.view, Endpoint):
            return self.view.inputs.get(self._action)
        return super().get_request_serializer()

    def get_response_serializers(self) -> Any:
        if not isinstance(self.view, Endpoint):
            return super().get_response_serializers()
        return self._success()

    def _get_response_bodies(self, direction: Any = "response") -> dict[str, Any]:
        """Add the refusals, which an action that names its own answers has as well."""
        bodies: dict[str, Any] = super()._get_response_bodies(direction)
        for code in self._refusals():
            refusal = OpenApiResponse(ProblemSerializer, description=_PROBLEMS[code])
            bodies.setdefault(
                str(code),
                self._get_response_for_code(  # type: ignore[no-untyped-call]
                    refusal, str(code), [problems.CONTENT_TYPE], direction
                ),
            )
        return bodies

    def _refusals(self) -> list[int]:
        codes = {400, 401, 403}
        if "{" in self.path:
            codes.add(404)
        if self.method != "GET":
            codes.add(409)
        if self._conditional:
            codes.add(412)
        return sorted(codes)

    def _get_parameters(self) -> list[dict[str, Any]]:
        """A class names the parameters of all its paths; those that this path lacks are none of it."""
        found: list[dict[str, Any]] = super()._get_parameters()
        return [one for one in found if one["in"] != "path" or f"{{{one['name']}}}" in self.path]

    def _success(self) -> dict[Any, Any]:
        view = self.view
        if self.method == "DELETE" and isinstance(view, DestroyEndpoint):
            return {204: OpenApiResponse(None, description="Deleted.")}
        if self._action == "create" and isinstance(view, CreateEndpoint):
            return {view.created_status: self._get_serializer()}  # type: ignore[no-untyped-call]
        if self._action == "update" and isinstance(view, PutEndpoint):
            return dict.fromkeys((200, 201), self._get_serializer())  # type: ignore[no-untyped-call]
        if self._action == "retrieve":
            same = OpenApiResponse(None, description="Not modified: the ETag of If-None-Match is current.")
            return {200: self._get_serializer(), 304: same}  # type: ignore[no-untyped-call]
        return {200: self._get_serializer()}  # type: ignore[no-untyped-call]

    @property
    def _conditional(self) -> bool:
        changes = self.method in ("PATCH", "PUT", "DELETE")
        return (
            changes
            and self._revised
            and isinstance(self.view, UpdateEndpoint | PutEndpoint | DestroyEndpoint)
        )

    def get_override_parameters(self) -> list[Any]:
        parameters = list(super().get_override_parameters())
        if not isinstance(self.view, Endpoint):
            return parameters
        if self.method == "POST":
            parameters.append(
                _request_header(
                    "Idempotency-Key", "Makes a retry safe: the same key and body get the same response."
                )
            )
        if self._action == "destroy" and isinstance(self.view, DestroyEndpoint):
            parameters.append(self.view.why)
        if self._conditional:
            parameters.append(_request_header("If-Match", "Update only if the object still has this ETag."))
        if self._action == "retrieve":
            parameters.append(_request_header("If-None-Match", "304 if the object still has this ETag."))
        if self._action in ("retrieve", "create", "partial_update", "update"):
            parameters.append(_response_header("ETag", "ETag of the object."))
        if self._action == "create":
            parameters.append(_response_header("Location", "URL of the object."))
        return parameters


def _request_header(name: str, description: str) -> OpenApiParameter:
    return OpenApiParameter(name, OpenApiTypes.STR, "header", description=description)


def _response_header(name: str, description: str) -> OpenApiParameter:
    return OpenApiParameter(
        name, OpenApiTypes.STR, "header", description=description, response=[200, 201, 202]
    )
