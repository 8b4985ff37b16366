"""Asking a worker something real before it gets any traffic."""

import time
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import httpx2

from common.characters import storable

PROMPTS = (
    "Return a list of",
    "The file is opened",
    "Raise an error if the",
    "This function takes",
    "If the argument is None,",
)
MAX_TOKENS = 16


@dataclass(frozen=True, slots=True)
class Probe:
    """One question and how it was answered. `fault` says in words why it was no good; empty: good."""

    worker: str
    prompt: str
    milliseconds: float
    answer: str
    fault: str

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"milliseconds": round(self.milliseconds, 1)}


class Prober(Protocol):
    def ask(
        self, *, worker: str, base_url: str, prompt: str, version_label: str, timeout_seconds: float
    ) -> Probe:
        """One completion from the worker at `base_url`; never raises for what the worker does."""


class HttpProber:
    """Speaks the OpenAI completions API to the worker itself, past the gateway."""

    def ask(
        self, *, worker: str, base_url: str, prompt: str, version_label: str, timeout_seconds: float
    ) -> Probe:
        began = time.monotonic()

        def probe(answer: str = "", fault: str = "") -> Probe:
            milliseconds = (time.monotonic() - began) * 1000
            # A model says what it likes.
            return Probe(worker, prompt, milliseconds, storable(answer[:500]), storable(fault))

        body = {"model": version_label, "prompt": prompt, "max_tokens": MAX_TOKENS, "temperature": 0}
        try:
            response = httpx2.post(f"{base_url}/v1/completions", json=body, timeout=timeout_seconds)
        except httpx2.TimeoutException:
            return probe(fault=f"no answer within {timeout_seconds:g} s")
        except httpx2.HTTPError as error:
            return probe(fault=f"{type(error).__name__}: {error}")
        if response.status_code != 200:
            return probe(response.text, f"answered {response.status_code}: {response.text[:200]}")
        try:
            choice = response.json()["choices"][0]
            text, finish = choice["text"], choice["finish_reason"]
        except (ValueError, LookupError, TypeError):
            return probe(response.text, "the answer is not a completion in OpenAI's shape")
        if not isinstance(text, str) or finish is None:
            return probe(str(text), "the answer has no text or was cut off")
        return probe(text)


prober: Prober = HttpProber()
