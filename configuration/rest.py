"""Calls of Slipway's own REST routes within a request: with its rights and checks, in its transaction."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any, cast
from urllib.parse import urlsplit

from django.http import HttpRequest, QueryDict
from django.urls import resolve, reverse
from rest_framework.serializers import Serializer

from common.api.json import dumps, loads
from common.configuration import ConfigurationKind

LEFT_OUT = frozenset(
    (
        *("CONTENT_LENGTH", "CONTENT_TYPE", "QUERY_STRING"),
        *("HTTP_IF_MATCH", "HTTP_IF_NONE_MATCH", "HTTP_IDEMPOTENCY_KEY"),
    )
)
PAGE = 1000


class RestRefused(Exception):
    """A route refused a call; `problem` is its document of RFC 9457."""

    def __init__(self, problem: Mapping[str, Any]) -> None:
        super().__init__(problem["detail"])
        self.status: int = problem["status"]
        self.fields: Mapping[str, list[str]] = problem.get("errors") or {"": [problem["detail"]]}


@dataclass(frozen=True, slots=True)
class RestObject:
    row: Mapping[str, Any]
    etag: str
    address: str


@dataclass(frozen=True, slots=True)
class KindRoutes:
    """REST routes of one kind, as the person of a request may use them."""

    kind: ConfigurationKind
    request: HttpRequest

    @property
    def collection(self) -> str:
        return reverse(f"{self.kind.routes}-list")

    def address(self, name: Any, document: Mapping[str, Any]) -> str:
        query = QueryDict(mutable=True)
        query.update({key: document[key] for key in self.kind.parameters if document.get(key)})
        place = reverse(f"{self.kind.routes}-detail", kwargs={self.kind.lookup: name})
        return f"{place}?{query.urlencode()}" if query else place

    def fields(self, *actions: str) -> Mapping[str, Any]:
        """Return the fields of bodies of these actions, by name."""
        view: Any = resolve(self.collection).func
        serializers = [view.cls.inputs[action] for action in actions if action in view.cls.inputs]
        return {
            name: field for one in serializers for name, field in cast(Serializer[Any], one()).fields.items()
        }

    def rows(self) -> Iterator[Mapping[str, Any]]:
        """Yield all that the person may see."""
        address: str | None = f"{self.collection}?limit={PAGE}"
        while address:
            page = self.call("GET", address).row
            yield from (self._written(row) for row in page["results"])
            address = f"{self.collection}?{urlsplit(page['next']).query}" if page["next"] else None

    def found(self, name: str, team: str) -> RestObject | None:
        """Return the object of this name. Raises RestRefused, also where several have it."""
        key: Any = name
        if self.kind.found_in_list:
            same = [row["id"] for row in self.rows() if row["name"] == name and (row["team"] or "") == team]
            if not same:
                return None
            if len(same) > 1:
                raise RestRefused({"status": 409, "detail": f"{len(same)} objects have this name."})
            key = same[0]
        address = self.address(key, {"team": team})
        try:
            return self.call("GET", address)
        except RestRefused as refused:
            if refused.status == 404:
                return None
            raise

    def call(
        self, method: str, address: str, body: Mapping[str, Any] | None = None, *, etag: str = ""
    ) -> RestObject:
        """Raises RestRefused."""
        path, _, query = address.partition("?")
        inner = HttpRequest()
        outer = self.request
        inner.method, inner.path, inner.path_info = method, path, path
        inner.META = {key: value for key, value in outer.META.items() if key not in LEFT_OUT}
        inner.META |= {"REQUEST_METHOD": method, "PATH_INFO": path, "QUERY_STRING": query}
        inner.GET = QueryDict(query)
        inner.COOKIES = outer.COOKIES
        inner.user, inner.actor = outer.user, outer.actor  # type: ignore[attr-defined]
        # The request itself was checked.
        inner._dont_enforce_csrf_checks = True  # type: ignore[attr-defined]
        content = b"" if body is None else dumps(body)
        inner._stream, inner._read_started = BytesIO(content), False  # type: ignore[attr-defined]
        if content:
            inner.META |= {"CONTENT_TYPE": "application/json", "CONTENT_LENGTH": str(len(content))}
        if etag:
            inner.META["HTTP_IF_MATCH"] = etag
        match = resolve(path)
        answer: Any = match.func(inner, *match.args, **match.kwargs)
        row = loads(dumps(answer.data)) if answer.data is not None else {}
        if answer.status_code >= 400:
            raise RestRefused(row)
        row = self._written(row) if "name" in row else row
        return RestObject(row, answer.get("ETag", ""), address)

    def _written(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**row, **self.kind.written(row)} if self.kind.written else row
