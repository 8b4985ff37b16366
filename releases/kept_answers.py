"""Answers that workers of both sides kept to the same real requests (`serving.kept_answers`), in pairs."""

import json
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import httpx2

from common.characters import storable
from releases.answers import AT_ONCE
from releases.comparison import ComparedAnswer
from serving.protocol import KEEP_HEADER, KEPT_PATH

Address = tuple[str, int]
ENDED_FOR_SECONDS = 5.0
"""A copy is looked at so long after its answer: stable, where it is somewhat slower, has answered by then."""
WITHIN_SECONDS = 3.0
MOST_CANDIDATES, MOST_STABLE = 8, 64
"""Workers of a side that are asked at a look; of more of them the others' answers find no pair."""


@dataclass(frozen=True, slots=True)
class KeptPair:
    """A request and what both sides answered."""

    shown: str
    candidate: ComparedAnswer
    stable: ComparedAnswer


@dataclass(frozen=True, slots=True)
class KeptLook:
    """Findings of a look at the workers. `marks`: by worker, as far as its answers were looked at."""

    pairs: Sequence[KeptPair] = ()
    unpaired: int = 0
    """Answers of the candidate whose counterpart nobody had kept."""
    used: Sequence[str] = ()
    """Stable's answers that have their pair: none counts twice."""
    marks: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    silent: int = 0
    """Workers that do not tell: they are gone, or serve without a front of ours."""


class KeptAnswersSource:
    """Asks workers over HTTP."""

    def look(
        self,
        key: str,
        candidate: Sequence[Address],
        stable: Sequence[Address],
        *,
        marks: Mapping[str, Sequence[Any]],
        used: Iterable[str],
    ) -> KeptLook:
        """Return new pairs; never raises for what a worker does."""
        first = {
            f"{host}:{port}": marks.get(f"{host}:{port}", ("", 0))
            for host, port in candidate[:MOST_CANDIDATES]
        }
        theirs = _ask_all(
            {
                at: {"session": session, "after": after, "ended_for": ENDED_FOR_SECONDS}
                for at, (session, after) in first.items()
            },
            key,
        )
        copies = list(chain.from_iterable(answers for _session, answers in theirs.values()))
        now = {
            at: (
                session,
                answers[-1]["number"] if answers else first[at][1] if first[at][0] == session else 0,
            )
            for at, (session, answers) in theirs.items()
        }
        if not copies:
            return KeptLook(marks=now, silent=len(first) - len(theirs))
        digests = {"digests": sorted({one["digest"] for one in copies})}
        ours = _ask_all({f"{host}:{port}": digests for host, port in stable[:MOST_STABLE]}, key)
        return _paired(copies, ours, set(used), now, len(first) - len(theirs))


def _paired(
    copies: Sequence[Mapping[str, Any]],
    ours: Mapping[str, tuple[str, Sequence[Mapping[str, Any]]]],
    used: set[str],
    marks: Mapping[str, Sequence[Any]],
    silent: int,
) -> KeptLook:
    waiting: dict[str, list[tuple[str, Mapping[str, Any]]]] = {}
    for session, answers in ours.values():
        for one in answers:
            name = f"{session[:8]}:{one['number']}"
            if name not in used:
                waiting.setdefault(one["digest"], []).append((name, one))
    pairs, taken = [], []
    for copy in copies:
        if found := waiting.get(copy["digest"]):
            name, original = found.pop(0)
            taken.append(name)
            pairs.append(KeptPair(shown_of(copy), _compared(copy), _compared(original)))
    return KeptLook(pairs, len(copies) - len(pairs), taken, marks, silent)


def shown_of(one: Mapping[str, Any]) -> str:
    """Return the request in short: its prompt or last message, or else its path and body."""
    try:
        asked = json.loads(one["request"])
        messages = asked.get("messages")
        words = messages[-1]["content"] if messages else asked["prompt"]
        if isinstance(words, str):
            return storable(words)
    except (ValueError, LookupError, TypeError, AttributeError):
        pass
    return storable(f"{one['path']} {one['request']}")


def text_of(answer: str) -> str:
    """Return what an answer says: the text of OpenAI's shapes, streamed or whole; else all of it."""
    if answer.startswith(("data:", "event:")):
        events = (line[5:].strip() for line in answer.splitlines() if line.startswith("data:"))
        said = [_said(one) for one in events if one != "[DONE]"]
        return answer if None in said else "".join(one or "" for one in said)
    found = _said(answer)
    return answer if found is None else found


def _said(document: str) -> str | None:
    """Return the text of a completion or of a part of one; None for any other document."""
    try:
        told = json.loads(document)
        if str(told.get("type", "")).startswith("response."):
            return str(told["delta"]) if told["type"] == "response.output_text.delta" else ""
        return "".join(
            (one.get("message") or one.get("delta") or {}).get("content") or one.get("text") or ""
            for one in told["choices"]
        )
    except (ValueError, LookupError, TypeError, AttributeError):
        return None


def _compared(one: Mapping[str, Any]) -> ComparedAnswer:
    text = storable(text_of(one["answer"]))
    return ComparedAnswer(text, one["seconds"], one["code"] >= 400, one["worker_seconds"])


def _ask_all(asked: Mapping[str, Mapping[str, Any]], key: str) -> dict[str, tuple[str, list[dict[str, Any]]]]:
    """Ask each address its question; those that do not tell are left out."""

    def ask(one: tuple[str, Mapping[str, Any]]) -> tuple[str, list[dict[str, Any]]] | None:
        address, question = one
        try:
            url = f"http://{address}{KEPT_PATH}"
            response = httpx2.post(url, json=question, headers={KEEP_HEADER: key}, timeout=WITHIN_SECONDS)
            told = response.json()
            return (str(told["session"]), list(told["answers"])) if response.status_code == 200 else None
        except (httpx2.HTTPError, ValueError, LookupError, TypeError):
            return None

    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = zip(asked, pool.map(ask, asked.items()), strict=True)
        return {address: told for address, told in found if told is not None}


source = KeptAnswersSource()
