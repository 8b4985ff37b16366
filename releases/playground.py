"""The versions of a service that a person can try, past the gateway."""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import httpx2
from django.utils.translation import gettext as _

from accounts.services.rights import require
from accounts.states import Right
from clusters import selectors as fleet
from clusters.errors import DeploymentMissing
from common.actor import Actor
from common.errors import Conflict
from releases.models import Release, Service
from releases.states import IN_MOTION
from serving.protocol import ENGINES_WITH_ROUTES

ROUTES_WITHIN_SECONDS = 2.0
METHODS = ("POST", "GET")
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"


@dataclass(frozen=True, slots=True)
class PlaygroundSide:
    """A version that can be tried, and where its workers are."""

    name: str
    version: str
    deployment: str

    @property
    def base_url(self) -> str:
        """Return the address of its first ready worker; empty: none is ready."""
        with suppress(DeploymentMissing):
            for address, port in fleet.endpoints(self.deployment).addresses:
                return f"http://{f'[{address}]' if ':' in address else address}:{port}"
        return ""


@dataclass(frozen=True, slots=True)
class PlaygroundRoute:
    method: str
    path: str


def sides_of(service: Service) -> list[PlaygroundSide]:
    """Return stable and, while a release runs, its candidate."""
    found = []
    if service.stable_deployment and service.stable_version:
        found.append(PlaygroundSide("stable", str(service.stable_version), service.stable_deployment))
    release = Release.objects.filter(service=service, state__in=IN_MOTION).first()
    if release is not None and release.candidate_deployment:
        found.append(PlaygroundSide("candidate", str(release.version), release.candidate_deployment))
    return found


def worker_url(service: Service, *, actor: Actor, side: str) -> str:
    """Return the address of a worker of `stable` or `candidate`. Raises NotAllowed, Conflict."""
    require(actor, Right.SERVICES_WRITE, service.team)
    found = next((one for one in sides_of(service) if one.name == side), None)
    if found is None:
        words = _("%(service)s has no version on the side %(side)s now.")
        raise Conflict(words % {"service": service.name, "side": side})
    if not (url := found.base_url):
        raise Conflict(_("No worker of %(version)s is ready.") % {"version": found.version})
    return url


def routes_of(service: Service, sides: Sequence[PlaygroundSide]) -> list[PlaygroundRoute]:
    """Return what can be asked: of a service with routes of its own, those of its OpenAPI document."""
    if service.engine not in ENGINES_WITH_ROUTES:
        return [PlaygroundRoute("POST", path) for path in (CHAT, COMPLETIONS)]
    for side in sides:
        if base_url := side.base_url:
            with suppress(httpx2.HTTPError, ValueError, AttributeError):
                answer = httpx2.get(f"{base_url}/openapi.json", timeout=ROUTES_WITHIN_SECONDS)
                paths = sorted(answer.json().get("paths", {}).items())
                return [
                    PlaygroundRoute(method, path)
                    for path, operations in paths
                    for method in METHODS
                    if method.lower() in operations
                ]
    return []


def usual_body(service: Service, path: str) -> str:
    said: dict[str, Any] = {}
    if path == COMPLETIONS:
        said = {"model": service.name, "prompt": "Hello", "max_tokens": 64, "stream": True}
    return json.dumps(said, indent=2)
