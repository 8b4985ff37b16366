"""What two versions answer to the same items: a labelled set, asked of workers, past the gateway."""

import json
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from time import monotonic
from typing import Any, Literal

import httpx2
from django.utils.translation import gettext as _

from common.characters import storable
from model_store import blob_store

Match = Literal["exact", "contains"]
MOST_BYTES = 16 * 1024 * 1024
SHOWN = 200
"""Characters of an answer that are kept to be looked at."""
AT_ONCE = 8


class BadLabelledSet(Exception):
    """The set cannot be used; the text says which line, and why."""


@dataclass(frozen=True, slots=True)
class LabelledItem:
    """A prompt of a completion, or the body of a request to a route, and the answer that is right."""

    prompt: str
    expected: Any
    path: str = ""
    body: Any = None

    @property
    def shown(self) -> str:
        return self.prompt or f"{self.path} {json.dumps(self.body)}"


@dataclass(frozen=True, slots=True)
class WorkerAnswer:
    """`text` as it came; `fault`: why there is none."""

    text: str
    fault: str = ""
    seconds: float = 0.0
    """How long it took."""


@lru_cache(maxsize=8)
def items_of(sha256: str, *, is_labelled: bool = True) -> Sequence[LabelledItem]:
    """Return the items of a file of the model store; not labelled: no answer is asked of them.

    Raises BadLabelledSet, BlobMissing.
    """
    with blob_store.store().opened(sha256) as content:
        read = content.read_at(0, MOST_BYTES + 1)
    if len(read) > MOST_BYTES:
        raise BadLabelledSet(_("The set is larger than %(most)s MiB.") % {"most": MOST_BYTES // 2**20})
    try:
        return read_items(read.decode(), is_labelled=is_labelled)
    except UnicodeDecodeError:
        raise BadLabelledSet(_("The set is not UTF-8 text with one JSON object per line.")) from None


def read_items(text: str, *, is_labelled: bool = True) -> Sequence[LabelledItem]:
    """Read JSON lines. Raises BadLabelledSet."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            told = json.loads(line)
        except ValueError:
            told = None
        if isinstance(told, dict) and not is_labelled:
            told.setdefault("answer", "-")
        item = _item(told) if isinstance(told, Mapping) else None
        if item is None:
            raise BadLabelledSet(
                _('Line %(line)s is no item: give {"prompt": ..., "answer": ...}, or path, body and answer.')
                % {"line": number}
            )
        found.append(item)
    if len({(one.prompt, one.path, json.dumps(one.body)) for one in found}) < len(found):
        raise BadLabelledSet(_("The set asks the same more than once: each item may count once."))
    return tuple(found)


def _item(told: Mapping[str, Any]) -> LabelledItem | None:
    prompt, expected, path = told.get("prompt"), told.get("answer"), told.get("path")
    choices = told.get("choices")
    if isinstance(choices, list) and isinstance(expected, int) and 0 <= expected < len(choices):
        expected = choices[expected]
    if isinstance(path, str) and path.startswith("/") and "body" in told and expected is not None:
        return LabelledItem("", expected, path, told["body"])
    if isinstance(prompt, str) and prompt.strip() and isinstance(expected, str) and expected.strip():
        return LabelledItem(prompt, expected)
    return None


def score(item: LabelledItem, answer: WorkerAnswer, match: Match) -> int:
    """1 for a right answer, else 0. Pure. Of an object, what is expected must be among what came."""
    if answer.fault:
        return 0
    if not isinstance(item.expected, str):
        try:
            return int(_holds(json.loads(answer.text), item.expected))
        except ValueError:
            return 0
    given, wanted = _plain(answer.text), _plain(item.expected)
    return int(given == wanted if match == "exact" else f" {wanted} " in f" {given} ")


def _holds(given: Any, expected: Any) -> bool:
    if isinstance(expected, Mapping) and isinstance(given, Mapping):
        return all(key in given and _holds(given[key], value) for key, value in expected.items())
    return bool(given == expected)


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


class AnswerSource:
    """Asks workers over HTTP: completions in OpenAI's shape, or a route of a service's own."""

    def ask_all(
        self, asked: Sequence[tuple[str, str, LabelledItem]], *, max_tokens: int, timeout_seconds: float
    ) -> list[WorkerAnswer]:
        """Ask `(base URL, model, item)`, some at once; never raises for what a worker does."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return list(
                pool.map(lambda one: _ask(*one, max_tokens=max_tokens, timeout=timeout_seconds), asked)
            )


def _ask(url: str, model: str, item: LabelledItem, *, max_tokens: int, timeout: float) -> WorkerAnswer:
    body = {"model": model, "prompt": item.prompt, "max_tokens": max_tokens, "temperature": 0}
    path, sent = (item.path, item.body) if item.path else ("/v1/completions", body)
    began = monotonic()
    try:
        response = httpx2.post(f"{url}{path}", json=sent, timeout=timeout)
        if response.status_code >= 300:
            return WorkerAnswer("", storable(f"HTTP {response.status_code}: {response.text[:SHOWN]}"))
        said = response.text if item.path else response.json()["choices"][0]["text"]
    except httpx2.HTTPError as error:
        return WorkerAnswer("", storable(f"{type(error).__name__}: {error}"))
    except (ValueError, LookupError, TypeError):
        return WorkerAnswer("", _("the answer is not a completion in OpenAI's shape"))
    return WorkerAnswer(storable(str(said)), seconds=monotonic() - began)


source = AnswerSource()
