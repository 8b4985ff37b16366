"""The base of every REST endpoint: an app's view names its serializers and calls its services.

class Teams(ListEndpoint, CreateEndpoint, RetrieveEndpoint, UpdateEndpoint, DestroyEndpoint):
    queryset = Team.objects.all()
    serializer_class = TeamSerializer
    inputs = {"create": NewTeam, "partial_update": TeamChange}
    sort = ("name",)
    search_fields = ("name",)

    def create_one(self, given):
            return services.create_team(actor=self.actor, **given)
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, ClassVar, cast
from urllib.parse import quote

from django.core.exceptions import ImproperlyConfigured
from django.db.models import Model, QuerySet
from django.http import Http404
from django.http.response import HttpResponseBase
from django.utils.translation import gettext as _
from rest_framework.exceptions import ValidationError
from rest_framework.filters import SearchFilter
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer, CharField, Serializer
from rest_framework.viewsets import GenericViewSet

from common.actor import Actor
from common.api import filters, idempotency, problems
from common.api.bodies import unknown_fields
from common.api.cursors import DEFAULT_LIMIT, KeysetPagination
from common.api.etags import etag_of, expected_revision, unchanged
from common.audit import MAX_REASON
from common.errors import Stale
from common.revisions import Revised


class Endpoint(GenericViewSet[Any]):
    """Who asks, what is visible to them, what they sent; every POST may carry an `Idempotency-Key`."""

    inputs: ClassVar[Mapping[str, type[BaseSerializer[Any]]]] = {}
    """What the body of each action holds; actions that are not named take none."""
    outputs: ClassVar[Mapping[str, type[BaseSerializer[Any]]]] = {}
    """What an action answers, where that is not `serializer_class`."""
    needs: ClassVar[Mapping[str, Any]] = {}
    """The right that an action takes, or `InstallationRight(right)`: checked before the body is read."""
    secret_answers: ClassVar[frozenset[str]] = frozenset()
    """Actions whose answer holds a secret: it is sent once and not stored for replay."""
    parameters: ClassVar[Mapping[str, Collection[str]]] = {}
    """Query parameters by action, beside those of paging and filtering."""
    paged_actions: ClassVar[frozenset[str]] = frozenset({"list"})
    """Actions that answer `self.paged(...)`."""
    sort: ClassVar[Sequence[str]] = ("pk",)
    search_fields: ClassVar[Sequence[str]] = ()
    pagination_class: type[KeysetPagination] | None = KeysetPagination
    filter_backends = (filters.FilterBackend, SearchFilter)

    @property
    def actor(self) -> Actor:
        return cast("Actor", self.request._request.actor)  # type: ignore[attr-defined]

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if request.method in SAFE_METHODS:
            self._refuse_unknown_parameters(request)
        elif request.method == "POST" and (handler := getattr(self, "post", None)):
            # `dispatch` looks the handler up after this.
            self.post = partial(self._post_once, handler)

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        response.setdefault("Cache-Control", "no-store" if self._shows_a_secret else "private, no-cache")
        return super().finalize_response(request, response, *args, **kwargs)

    @property
    def _shows_a_secret(self) -> bool:
        return getattr(self, "action", None) in self.secret_answers

    def _post_once(
        self, handler: Callable[..., HttpResponseBase], request: Request, *args: Any, **kwargs: Any
    ) -> HttpResponseBase:
        if self.action not in self.inputs and (unknown := unknown_fields(None, request.data)):
            raise ValidationError(unknown)
        work = partial(handler, request, *args, **kwargs)
        return idempotency.once(request, self.actor, work, secret=self._shows_a_secret)

    def _refuse_unknown_parameters(self, request: Request) -> None:
        """A misspelt filter must not look like a list without one, nor the last of two like both."""
        if not request.query_params:
            return
        known = set(self.parameters.get(self.action, ()))
        listed: set[str] = set()
        if self.action == "destroy":
            known.add("reason")
        if self.action in self.paged_actions:
            known |= {*KeysetPagination.fields, *self.filter_names()}
            listed = filters.names_of_lists(self._filters())
        if unknown := sorted(set(request.query_params) - known):
            hint = ", ".join(sorted(known)) or "none"
            raise ValidationError({name: [f"There is no such parameter. Known: {hint}."] for name in unknown})
        repeated = [name for name, values in request.query_params.lists() if len(values) > 1]
        if at_fault := sorted(set(repeated) - listed):
            raise ValidationError({name: ["Give it once."] for name in at_fault})

    def filter_names(self) -> set[str]:
        """The query parameters, beside those of paging, that narrow the list."""
        names = set(self._filters())
        return names | {"q"} if self.search_fields else names

    def _filters(self) -> Mapping[str, Any]:
        found = filters.FilterBackend().get_filterset_class(self, super().get_queryset())
        return found.base_filters if found else {}

    def get_queryset(self) -> QuerySet[Any]:
        rows = super().get_queryset()
        return rows.none() if getattr(self, "swagger_fake_view", False) else self.visible(rows)

    def visible(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        """The rows that the actor may know of; anything else is a 404."""
        if not hasattr(rows, "for_actor"):
            raise ImproperlyConfigured(f"{type(self).__name__} must say what is visible to whom.")
        return cast("QuerySet[Any]", rows.for_actor(self.actor))

    def given(self) -> dict[str, Any]:
        """The validated body of this action."""
        serializer = self.inputs[self.action](
            data=self.request.data,
            partial=self.request.method == "PATCH",
            context=self.get_serializer_context(),
        )
        unknown = unknown_fields(serializer, self.request.data)
        if not serializer.is_valid() or unknown:
            raise ValidationError(problems.flattened(serializer.errors) | unknown)
        return cast("dict[str, Any]", serializer.validated_data)

    def get_serializer_class(self) -> type[BaseSerializer[Any]]:
        return self.outputs.get(self.action) or super().get_serializer_class()

    def paged(self, rows: QuerySet[Any] | Sequence[Any]) -> Response:
        """Answer with a page of the rows."""
        return self.get_paginated_response(
            self.shown(self.paginate_queryset(cast("QuerySet[Any]", rows)) or ())
        )

    def shown(self, page: Sequence[Any]) -> Any:
        """Override where a long list is better read as `values()` than through a serializer."""
        return self.get_serializer(page, many=True).data

    def answer(self, instance: Model, *, status: int = 200) -> Response:
        """Return one object with its ETag."""
        shown = self.get_serializer(instance).data
        return Response(shown, status=status, headers={"ETag": etag_of(instance, shown)})

    def expected(self, instance: Model) -> int | None:
        """The revision that If-Match asks for; hand it to the service. Raises Stale."""
        shown = None if isinstance(instance, Revised) else self.get_serializer(instance).data
        return expected_revision(self.request._request, instance, shown=shown)


class ListEndpoint(Endpoint):
    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """List the objects that you have permission to see, page by page."""
        first = None if request.query_params else self.first_rows(DEFAULT_LIMIT + 1)
        return self.paged(self.filter_queryset(self.get_queryset()) if first is None else first)

    def first_rows(self, limit: int) -> Sequence[Any] | None:
        """Return the first rows of the whole list, where there is a shorter way to them."""
        return None


class CreateEndpoint(Endpoint, ABC):
    created_status: ClassVar[int] = 201
    """202 where the creation goes on after the answer."""

    def create(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Create one."""
        instance = self.create_one(self.given())
        response = self.answer(instance, status=self.created_status)
        name = attrgetter(self.lookup_field.replace("__", "."))(instance)
        response["Location"] = f"{request.path}{quote(str(name), safe='@+')}/"
        return response

    @abstractmethod
    def create_one(self, given: dict[str, Any]) -> Any:
        """Call the service; returns the created instance."""


class RetrieveEndpoint(Endpoint):
    def retrieve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Get one."""
        response = self.answer(self.get_object())
        if unchanged(request._request, response["ETag"]):
            return Response(status=304, headers={"ETag": response["ETag"]})
        return response


class UpdateEndpoint(Endpoint, ABC):
    """PATCH. The rows must be `Revised`, so that If-Match is a compare-and-set."""

    def partial_update(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Update one; fields not given are unchanged."""
        instance = self.get_object()
        expected = self.expected(instance)
        return self.answer(self.change_one(instance, self.given(), expected))

    @abstractmethod
    def change_one(self, instance: Any, given: dict[str, Any], expected: int | None) -> Any:
        """Call the service with the `expected` revision; returns the changed instance."""


class PutEndpoint(Endpoint, ABC):
    """PUT: changes what has this name, or makes it. `If-None-Match: *` makes it only."""

    def update(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Update the one of this name, or create it."""
        try:
            present = self.get_object()
        except Http404:
            present = None
        if present is None and "If-Match" in request.headers:
            raise Stale(_("What your If-Match names is gone."))
        if present is not None and request.headers.get("If-None-Match") == "*":
            raise Stale(_("It exists already, and your If-None-Match asks that it does not."))
        expected = self.expected(present) if present is not None else None
        made = self.put_one(present, self.given(), expected)
        return self.answer(made, status=201 if present is None else 200)

    @abstractmethod
    def put_one(self, instance: Any | None, given: dict[str, Any], expected: int | None) -> Any:
        """Call the service with the `expected` revision; `instance` is what has the name, if anything."""


class WhyDeleted(Serializer[Any]):
    """The query of a DELETE: what its body would say, which proxies drop."""

    reason = CharField(
        max_length=MAX_REASON, default="", allow_blank=True, help_text="Reason; recorded in the audit log."
    )


class WhyRemoved(Serializer[Any]):
    """A body like that of `WhyDeleted`, whose reason is required."""

    reason = CharField(max_length=MAX_REASON, help_text="Reason; recorded in the audit log.")


class DestroyEndpoint(Endpoint, ABC):
    why: ClassVar[type[Serializer[Any]]] = WhyDeleted

    def destroy(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Delete one."""
        # A misspelt reason must not look like a deletion without one.
        self._refuse_unknown_parameters(request)
        query = self.why(data=request.query_params.dict())
        query.is_valid(raise_exception=True)
        instance = self.get_object()
        self.delete_one(instance, self.expected(instance), query.validated_data["reason"])
        return Response(status=204)

    @abstractmethod
    def delete_one(self, instance: Any, expected: int | None, reason: str) -> None:
        """Call the service with the `expected` revision, and why."""
