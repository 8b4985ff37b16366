"""The exceptions of services: in their code, in their answers, by their clients' leave."""

from collections.abc import Mapping, Sequence
from typing import Any

PROBLEM_TYPE = "application/problem+json"


class AppError(Exception):
    """The service's code cannot be meant so; the text says where and what would be right."""


class Problem(Exception):
    """An error answer (RFC 9457). Raise it in a handler, or in a model's method."""

    def __init__(
        self, status: int, title: str, detail: str = "", *, errors: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        super().__init__(f"{status} {title}: {detail}" if detail else f"{status} {title}")
        if not 400 <= status <= 599:
            raise ValueError(f"a problem has a status from 400 to 599, not {status}")
        self.status, self.title, self.detail, self.errors = status, title, detail, list(errors)

    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = {"type": "about:blank", "title": self.title, "status": self.status}
        if self.detail:
            document["detail"] = self.detail
        return document | ({"errors": self.errors} if self.errors else {})


class Cancelled(BaseException):
    """Raised inside a handler whose client has left. Not an Exception: a broad `except` does not keep it."""
