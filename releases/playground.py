"""A request of a person to one worker of each side of a service, past the gateway."""

import json
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx2
from django.utils.translation import gettext as _

from clusters import selectors as fleet
from clusters.errors import DeploymentMissing
from common.characters import storable
from releases.models import Release, Service
from releases.states import IN_MOTION
from serving.protocol import CHOSEN_BY_HEADER, ENGINES_WITH_ROUTES

WITHIN_SECONDS = 60.0
ROUTES_WITHIN_SECONDS = 2.0
MOST_SHOWN = 20_000
CHAT, COMPLETION = "/v1/chat/completions", "/v1/completions"


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
class PlaygroundAnswer:
    side: PlaygroundSide
    status: int | None
    """None: there is no answer, and `body` says why."""
    milliseconds: float
    body: str


def sides_of(service: Service) -> list[PlaygroundSide]:
    """Return stable and, while a release runs, its candidate."""
    found = []
    if service.stable_deployment and service.stable_version:
        found.append(PlaygroundSide("stable", str(service.stable_version), service.stable_deployment))
    release = Release.objects.filter(service=service, state__in=IN_MOTION).first()
    if release is not None and release.candidate_deployment:
        found.append(PlaygroundSide("candidate", str(release.version), release.candidate_deployment))
    return found


def routes_of(service: Service, sides: Sequence[PlaygroundSide]) -> list[str]:
    """Return paths that can be tried: of a service with routes of its own, those of its OpenAPI document."""
    if service.engine not in ENGINES_WITH_ROUTES:
        return [CHAT, COMPLETION]
    for side in sides:
        if base_url := side.base_url:
            with suppress(httpx2.HTTPError, ValueError, AttributeError):
                answer = httpx2.get(f"{base_url}/openapi.json", timeout=ROUTES_WITHIN_SECONDS)
                return sorted(answer.json().get("paths", {}))
    return []


def usual_body(service: Service, path: str) -> str:
    said: dict[str, Any] = {}
    if path == CHAT:
        said = {"model": service.name, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 64}
    elif path == COMPLETION:
        said = {"model": service.name, "prompt": "Hello", "max_tokens": 64}
    return json.dumps(said, indent=2)


def try_out(sides: Sequence[PlaygroundSide], path: str, body: Mapping[str, Any]) -> list[PlaygroundAnswer]:
    """Ask all sides at once. The requests count as chosen by a client: no release is judged by them."""
    with ThreadPoolExecutor(max(len(sides), 1)) as pool:
        # The database is asked here: threads would open connections of their own.
        places = [(side, side.base_url) for side in sides]
        return list(pool.map(partial(_ask, path=path, body=body), places))


def _ask(place: tuple[PlaygroundSide, str], *, path: str, body: Mapping[str, Any]) -> PlaygroundAnswer:
    side, base_url = place
    if not base_url:
        return PlaygroundAnswer(side, None, 0.0, _("No worker is ready."))
    began = time.monotonic()
    try:
        answer = httpx2.post(
            base_url + path, json=body, headers={CHOSEN_BY_HEADER: "client"}, timeout=WITHIN_SECONDS
        )
    except httpx2.HTTPError as error:
        words = _("The worker cannot be reached from here: %(error)s") % {"error": error}
        return PlaygroundAnswer(side, None, 1000 * (time.monotonic() - began), words)
    milliseconds = 1000 * (time.monotonic() - began)
    shown = answer.text
    with suppress(ValueError):
        shown = json.dumps(answer.json(), indent=2, ensure_ascii=False)
    return PlaygroundAnswer(side, answer.status_code, milliseconds, storable(shown[:MOST_SHOWN]))
