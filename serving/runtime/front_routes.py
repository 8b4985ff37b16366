"""Routes of a service, as the front finds them for a request."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from serving.runtime.errors import Problem

API_PREFIX = "/v1"


@dataclass(frozen=True)
class FrontRoute:
    number: int
    kind: str
    method: str
    path: str
    max_bytes: int
    timeout_seconds: float
    job: Mapping[str, Any] = field(default_factory=dict)
    """Of a job's route: `serving.jobs.job.JobPolicy`."""


class FrontRoutes:
    """Find the route of a request. Every route is found below /v1, too, which is all that gateways pass on of
    other engines, unless the service has that path itself. `exact`: routes without parameters by method and
    path."""

    def __init__(self, described: list[Mapping[str, Any]]) -> None:
        self.listed = [FrontRoute(number, **one) for number, one in enumerate(described)]
        plain = [route for route in self.listed if "{" not in route.path]
        self.exact = {(route.method, f"{API_PREFIX}{route.path}"): route for route in plain}
        self.exact |= {(route.method, route.path): route for route in plain}
        self._patterns = [(route.path.split("/"), route) for route in self.listed if "{" in route.path]

    def find(self, method: str, path: str) -> tuple[FrontRoute, dict[str, str]]:
        """The route and what its path names. Raises Problem: 404, or 405."""
        if (route := self.exact.get((method, path))) is not None:
            return route, {}
        tried = [path.split("/")]
        if path.startswith(f"{API_PREFIX}/"):
            tried.append(path[len(API_PREFIX) :].split("/"))
        allowed = {one for one, exact in self.exact if exact == path}
        for parts in tried:
            for pattern, route in self._patterns:
                if (named := _matched(pattern, parts)) is not None:
                    if route.method == method:
                        return route, named
                    allowed.add(route.method)
        if allowed:
            raise Problem(405, "Method not allowed", f"{path} takes {', '.join(sorted(allowed))}.")
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
