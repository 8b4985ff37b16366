"""What a drain's row says of each pod, from one look to the next. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from clusters.backends.node_operations import Eviction
from clusters.draining import GOES, Fate, PlannedPod
from common.retry import backoff

Entry = Mapping[str, Any]

MOST_KEPT = 1_000
"""Of pods that have left: a drain for days might see very many."""
GONE = "gone"
"""Fate of a pod that has left, in the row alone."""
ACCEPTED_AGAIN_AFTER = timedelta(seconds=10)
"""A pod that was to leave and does not begin to is asked again."""


def still_there(planned: Iterable[PlannedPod]) -> list[PlannedPod]:
    return [one for one in planned if one.fate in GOES]


def due(planned: Iterable[PlannedPod], former: Iterable[Entry], at: datetime) -> list[PlannedPod]:
    """Those that are to be asked to leave now; whom no budget holds back first."""
    again = {one["uid"]: one["ask_again_at"] for one in former}
    found = [
        one
        for one in planned
        if one.fate is Fate.EVICTED
        and not (again.get(one.pod.uid) and datetime.fromisoformat(again[one.pod.uid]) > at)
    ]
    return sorted(found, key=lambda one: bool(one.blocked_by))


def entries_of(
    planned: Sequence[PlannedPod],
    former: Iterable[Entry],
    answers: Mapping[str, Eviction],
    now: datetime,
) -> list[dict[str, Any]]:
    """What the row says from now on. `answers`: to what was asked just now, by uid."""
    before = {one["uid"]: one for one in former}
    found = [_entry(one, before.get(one.pod.uid), answers.get(one.pod.uid), now) for one in planned]
    there = {one.pod.uid for one in planned}
    gone = [
        {**one, "fate": GONE, "blocked_by": "", "left_at": one["left_at"] or now.isoformat()}
        for uid, one in before.items()
        if uid not in there and one["fate"] in (*GOES, GONE)
    ]
    return [*found, *gone[-MOST_KEPT:]]


def _entry(
    planned: PlannedPod, former: Entry | None, answer: Eviction | None, now: datetime
) -> dict[str, Any]:
    pod = planned.pod
    entry: dict[str, Any] = {
        "uid": pod.uid,
        "namespace": pod.namespace,
        "name": pod.name,
        "owner": pod.owner,
        "deployment": pod.deployment,
        "gpus": pod.gpu_count,
        "fate": str(planned.fate),
        "why": planned.why,
        "blocked_by": planned.blocked_by,
        "asked_at": former["asked_at"] if former else None,
        "ask_again_at": former["ask_again_at"] if former else None,
        "refusals": former["refusals"] if former else 0,
        "left_at": None,
    }
    if answer is None:
        # The API's own words are later than what was read of the budget.
        still_held = former and former["refusals"] and planned.fate is Fate.EVICTED
        return entry | ({"blocked_by": former["blocked_by"]} if former and still_held else {})
    entry["asked_at"] = entry["asked_at"] or now.isoformat()
    if answer.is_accepted:
        pause = ACCEPTED_AGAIN_AFTER
        entry |= {"blocked_by": "", "refusals": 0}
    else:
        refusals = entry["refusals"] + 1
        pause = backoff(refusals, first=timedelta(seconds=2), longest=timedelta(minutes=1))
        pause = max(pause, answer.retry_after or timedelta(0))
        entry |= {"blocked_by": answer.blocked_by, "refusals": refusals}
    return entry | {"ask_again_at": (now + pause).isoformat()}
