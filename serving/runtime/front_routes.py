"""Routes of a service, as the front finds them for a request."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from serving.runtime.api import Problem


@dataclass(frozen=True)
class FrontRoute:
    number: int
    kind: str
    method: str
    path: str
    max_bytes: int
    timeout_seconds: float


class Routes:
    """Find the route of a request."""

    def __init__(self, described: list[Mapping[str, Any]]) -> None:
        self.listed = [FrontRoute(number, **one) for number, one in enumerate(described)]
        self._exact = {(route.method, route.path): route for route in self.listed if "{" not in route.path}
        self._patterns = [(route.path.split("/"), route) for route in self.listed if "{" in route.path]

    def find(self, method: str, path: str) -> tuple[FrontRoute, dict[str, str]]:
        """The route and what its path names. Raises Problem: 404, or 405."""
        if (route := self._exact.get((method, path))) is not None:
            return route, {}
        parts = path.split("/")
        for pattern, route in self._patterns:
            if route.method == method and (named := _matched(pattern, parts)) is not None:
                return route, named
        allowed = [one for (one, exact) in self._exact if exact == path]
        allowed += [route.method for pattern, route in self._patterns if _matched(pattern, parts) is not None]
        if allowed:
            raise Problem(405, "Method not allowed", f"{path} takes {', '.join(sorted(set(allowed)))}.")
        raise Problem(404, "Not found", f"There is no {path} here; /openapi.json lists what there is.")


def _matched(pattern: list[str], parts: list[str]) -> dict[str, str] | None:
    if len(pattern) != len(parts):
        return None
    named = {}
    for wanted, part in zip(pattern, parts, strict=True):
        if wanted.startswith("{") and part:
            named[wanted[1:-1]] = part
        elif wanted != part:
            return None
    return named
