"""A request as handlers see it, and an answer that says more than a body."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from serving.runtime.errors import Problem


@dataclass
class Request:
    """A request as a handler without a body type sees it. Members of a JSON object, or fields of a form,
    are attributes too: `request.picture`. A subclass may narrow `content_types` and `max_bytes`.
    """

    content_types: ClassVar[tuple[str, ...]] = ()
    max_bytes: ClassVar[int | None] = None

    method: str
    path: str
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    path_params: Mapping[str, str] = field(default_factory=dict)

    def json(self) -> Any:
        """Raises Problem (400) when the body is not JSON."""
        try:
            return json.loads(self.body)
        except ValueError as error:
            raise Problem(400, "Malformed body", f"The body is not JSON: {error}") from None

    @property
    def is_form(self) -> bool:
        kind = self.headers.get("content-type", "")
        # `curl -d '{...}'` calls JSON a form.
        is_json = self.body.lstrip()[:1] in (b"{", b"[")
        is_encoded = kind.startswith("application/x-www-form-urlencoded") and not is_json
        return is_encoded or kind.startswith("multipart/form-data")

    def form(self) -> dict[str, Any]:
        """Fields of a form as text, files as bytes. Raises Problem (400)."""
        from serving.runtime.forms import read_form

        return read_form(self.headers.get("content-type", ""), self.body)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        fields = self.form() if self.is_form else self.json()
        if not isinstance(fields, dict) or name not in fields:
            missing = [{"field": name, "detail": "missing"}]
            raise Problem(422, "Invalid request", f"The field {name} is missing.", errors=missing)
        return fields[name]


@dataclass
class Response:
    """An answer with a status or headers of its own."""

    body: bytes | str = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    media_type: str = "application/octet-stream"
