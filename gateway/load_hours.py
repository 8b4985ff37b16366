"""Load of a service by the hour: requests, lengths in tokens, requests in flight; never contents. Pure.

Workers count since the start of their process, and an hour is the sum of the differences between readings,
one a minute. A process that is new counts from its first reading on.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import zip_longest
from typing import Any

from clusters.fleet import LastHeartbeat

LOAD_KEPT = timedelta(days=7)
Lengths = Sequence[int]
"""Requests by `serving.protocol.LENGTH_BOUNDS`."""


@dataclass(frozen=True, slots=True)
class RecordedLoad:
    """Load of several hours. `per_second`: mean of the hour with most requests; `in_flight` and `workers`:
    means over that hour."""

    hours: int
    requests: int
    prompts: Lengths
    answers: Lengths
    per_second: float
    in_flight: float
    workers: float


def folded(before: Mapping[str, Any], heartbeats: Sequence[LastHeartbeat]) -> dict[str, Any]:
    """Return the document of an hour after one more reading; `before` is empty at first, and `begun` carries
    the last reading over from the hour before."""
    last: Mapping[str, Any] = before.get("last", {})
    now: dict[str, list[Any]] = {
        one.process: [one.requests, list(one.prompt_lengths), list(one.answer_lengths)] for one in heartbeats
    }
    known: list[tuple[list[Any], list[Any]]] = [
        (last[process], counts) for process, counts in now.items() if process in last
    ]
    return {
        "requests": before.get("requests", 0) + sum(after[0] - early[0] for early, after in known),
        **{
            name: _summed(
                before.get(name, ()), *(_risen(early[place], after[place]) for early, after in known)
            )
            for place, name in ((1, "prompts"), (2, "answers"))
        },
        "readings": before.get("readings", 0) + 1,
        "in_flight": before.get("in_flight", 0) + sum(one.in_flight for one in heartbeats),
        "workers": before.get("workers", 0) + len(heartbeats),
        "last": now,
    }


def begun(before: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document of an hour that has no reading yet, after the hour `before`."""
    return {"last": before.get("last", {})}


def load_of(hours: Iterable[Mapping[str, Any]]) -> RecordedLoad | None:
    """Return the load of the hours in which there were requests; None: there were none."""
    busy = [one for one in hours if one.get("requests", 0) > 0]
    if not busy:
        return None
    busiest = max(busy, key=lambda one: one["requests"] / one["readings"])
    return RecordedLoad(
        hours=len(busy),
        requests=sum(one["requests"] for one in busy),
        prompts=_summed(*(one["prompts"] for one in busy)),
        answers=_summed(*(one["answers"] for one in busy)),
        per_second=busiest["requests"] / busiest["readings"] / 60,
        in_flight=busiest["in_flight"] / busiest["readings"],
        workers=busiest["workers"] / busiest["readings"],
    )


def _risen(early: Lengths, after: Lengths) -> list[int]:
    return [new - old for old, new in zip_longest(early, after, fillvalue=0)]


def _summed(*some: Lengths) -> list[int]:
    return [sum(values) for values in zip_longest(*some, fillvalue=0)]
