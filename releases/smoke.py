"""Asking a worker something real before it gets any traffic."""

import time
from dataclasses import dataclass, field
from typing import Any, Protocol

import httpx2
from django.utils.translation import gettext_lazy as _

from common import tracing
from common.characters import storable
from releases.messages import MessageTemplate, ReleaseMessage, number, text
from serving.protocol import ENGINES_WITH_ROUTES

PROMPTS = (
    "Return a list of",
    "The file is opened",
    "Raise an error if the",
    "This function takes",
    "If the argument is None,",
)
MAX_TOKENS = 16

NO_ANSWER = MessageTemplate("probe.no_answer", _("no answer within %(seconds)s s"), seconds=number)
REFUSED = MessageTemplate("probe.refused", _("answered %(status)s: %(body)s"), status=str, body=text)
NO_COMPLETION = MessageTemplate("probe.no_completion", _("the answer is not a completion in OpenAI's shape"))
CUT_OFF = MessageTemplate("probe.cut_off", _("the answer has no text or was cut off"))


@dataclass(frozen=True, slots=True)
class SmokeTestProbe:
    """A question and how it was answered. `fault` says why the answer was no good; a good one has none."""

    worker: str
    prompt: str
    milliseconds: float
    answer: str
    fault: ReleaseMessage = field(default_factory=ReleaseMessage)

    def as_json(self) -> dict[str, Any]:
        return {
            "worker": self.worker,
            "prompt": self.prompt,
            "milliseconds": round(self.milliseconds, 1),
            "answer": self.answer,
            "fault": self.fault.text,
            "fault_message": self.fault.document,
        }


class Prober(Protocol):
    def ask(
        self, *, worker: str, base_url: str, number: int, model: str, timeout_seconds: float
    ) -> SmokeTestProbe:
        """Send the worker at `base_url` the request of this number, from 0; never raises for what the worker
        does.
        """


class HttpProber:
    """Speaks the OpenAI completions API to the worker itself, past the gateway."""

    def ask(
        self, *, worker: str, base_url: str, number: int, model: str, timeout_seconds: float
    ) -> SmokeTestProbe:
        prompt = PROMPTS[number % len(PROMPTS)]
        began = time.monotonic()

        def probe(answer: str = "", fault: ReleaseMessage | None = None) -> SmokeTestProbe:
            milliseconds = (time.monotonic() - began) * 1000
            # A model says what it likes.
            return SmokeTestProbe(
                worker, prompt, milliseconds, storable(answer[:500]), fault or ReleaseMessage()
            )

        body = {"model": model, "prompt": prompt, "max_tokens": MAX_TOKENS, "temperature": 0}
        try:
            with tracing.span("smoke test", "client", attributes={"slipway.worker": worker}):
                response = httpx2.post(
                    f"{base_url}/v1/completions",
                    json=body,
                    headers=tracing.headers(),
                    timeout=timeout_seconds,
                )
        except httpx2.TimeoutException:
            return probe(fault=NO_ANSWER(seconds=timeout_seconds))
        except httpx2.HTTPError as error:
            return probe(fault=ReleaseMessage(words=storable(f"{type(error).__name__}: {error}")))
        if response.status_code != 200:
            said = storable(response.text[:200])
            return probe(response.text, REFUSED(status=response.status_code, body=said))
        try:
            choice = response.json()["choices"][0]
            words, finish = choice["text"], choice["finish_reason"]
        except (ValueError, LookupError, TypeError):
            return probe(response.text, NO_COMPLETION())
        if not isinstance(words, str) or finish is None:
            return probe(str(words), CUT_OFF())
        return probe(words)


class AppProber:
    """Sends the examples of a service's OpenAPI document to its worker, in turn; without any, the document is
    asked for.
    """

    def ask(
        self, *, worker: str, base_url: str, number: int, model: str, timeout_seconds: float
    ) -> SmokeTestProbe:
        began = time.monotonic()
        asked = "GET /openapi.json"

        def probe(answer: str = "", fault: ReleaseMessage | None = None) -> SmokeTestProbe:
            milliseconds = (time.monotonic() - began) * 1000
            return SmokeTestProbe(
                worker, asked, milliseconds, storable(answer[:500]), fault or ReleaseMessage()
            )

        try:
            with tracing.span("smoke test", "client", attributes={"slipway.worker": worker}):
                response = httpx2.get(f"{base_url}/openapi.json", timeout=timeout_seconds)
                examples = examples_of(response.json()) if response.status_code == 200 else []
                if examples:
                    method, path, body = examples[number % len(examples)]
                    asked = f"{method} {path}"
                    began = time.monotonic()
                    response = httpx2.request(
                        method,
                        f"{base_url}{path}",
                        json=body,
                        headers=tracing.headers(),
                        timeout=timeout_seconds,
                    )
        except httpx2.TimeoutException:
            return probe(fault=NO_ANSWER(seconds=timeout_seconds))
        except (httpx2.HTTPError, ValueError) as error:
            return probe(fault=ReleaseMessage(words=storable(f"{type(error).__name__}: {error}")))
        if response.status_code >= 300:
            said = storable(response.text[:200])
            return probe(response.text, REFUSED(status=response.status_code, body=said))
        return probe(response.text)


def examples_of(document: Any) -> list[tuple[str, str, Any]]:
    """Method, path and body of each request that an OpenAPI document gives an example of."""
    found = []
    paths = document.get("paths", {}) if isinstance(document, dict) else {}
    for path, operations in paths.items():
        for method, operation in operations.items():
            content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            if "example" in content and "{" not in path:
                found.append((method.upper(), path, content["example"]))
    return found


prober: Prober = HttpProber()
app_prober: Prober = AppProber()


def prober_for(engine: str) -> Prober:
    return app_prober if engine in ENGINES_WITH_ROUTES else prober
