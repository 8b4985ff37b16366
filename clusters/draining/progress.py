"""Progress of each pod in a drain's row, from one look to the next. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

from clusters.backends.node_operations import Eviction
from clusters.draining.checkpoints import GONE as GONE
from clusters.draining.checkpoints import TOLD, columns_of
from clusters.draining.options import DrainOptions
from clusters.draining.pods import GOES, PlannedPod, PodPlan, why_it_cannot_be
from common.retry import backoff

Entry = Mapping[str, Any]

NOBODY: Mapping[str, str] = MappingProxyType({})
MOST_KEPT = 1_000
"""Of pods that have left: a drain for days might see very many."""
LOOK_EVERY = timedelta(seconds=1)
BLOCKED_LOOK_AT_MOST = timedelta(seconds=15)
"""Pods may leave by themselves meanwhile."""
ACCEPTED_AGAIN_AFTER = timedelta(seconds=10)
"""A pod that was to leave and does not begin to is asked again."""


def still_there(planned: Iterable[PlannedPod]) -> list[PlannedPod]:
    return [one for one in planned if one.fate in GOES]


def why_it_ends(
    planned: Sequence[PlannedPod],
    wanted: DrainOptions,
    elapsed: timedelta,
    words: Mapping[str, str] = NOBODY,
) -> str:
    """Return why the drain ends; empty: it goes on. `words`: what holds pods back, by uid."""
    if why := why_it_cannot_be(planned):
        return why
    left = still_there(planned)
    if not left or elapsed < timedelta(seconds=wanted.within_seconds):
        return ""
    named = "; ".join(
        f"{one.pod.title} ({words.get(one.pod.uid) or one.why or 'it goes on'})" for one in left[:5]
    )
    more = f"; and {len(left) - 5} more" if len(left) > 5 else ""
    return f"After {wanted.within_seconds} s there are still {len(left)} pods: {named}{more}."


def due(planned: Iterable[PlannedPod], former: Iterable[Entry], at: datetime) -> list[PlannedPod]:
    """Return the pods to be asked to leave now; those without a budget that holds them back first."""
    again = {one["uid"]: one["ask_again_at"] for one in former}
    found = [
        one
        for one in planned
        if one.fate is PodPlan.EVICTED
        and not (again.get(one.pod.uid) and datetime.fromisoformat(again[one.pod.uid]) > at)
    ]
    return sorted(found, key=lambda one: bool(one.blocked_by))


def entries_of(
    planned: Sequence[PlannedPod],
    former: Iterable[Entry],
    answers: Mapping[str, Eviction],
    now: datetime,
    *,
    asked: Mapping[str, str] = NOBODY,
    kept: Mapping[str, str] = NOBODY,
    checkpoint_seconds: int = 0,
    told: Mapping[str, Any] = TOLD,
) -> list[dict[str, Any]]:
    """Return the entries to store. `answers`: to evictions just asked for, by uid; `asked`: pods asked for a
    checkpoint, and why that was impossible; `kept`: checkpoint progress of pods evicted since.
    """
    before = {one["uid"]: one for one in former}
    found = [
        _entry(one, before.get(one.pod.uid), answers.get(one.pod.uid), now)
        | columns_of(one.pod, before.get(one.pod.uid), asked, now, most_seconds=checkpoint_seconds, told=told)
        for one in planned
    ]
    there = {one.pod.uid for one in planned}
    gone = [
        {
            **one,
            **({"checkpoint": kept[uid]} if uid in kept else {}),
            "fate": GONE,
            "blocked_by": "",
            "left_at": one["left_at"] or now.isoformat(),
        }
        for uid, one in before.items()
        if uid not in there and one["fate"] in (*GOES, GONE)
    ]
    return [*found, *gone[-MOST_KEPT:]]


def look_after(entries: Sequence[Entry], now: datetime, *, until: datetime) -> timedelta:
    """Return the wait before the next look: where budgets hold back all that is left, until the first is to
    be asked again, or the drain's time is over.
    """
    left = [one for one in entries if one["fate"] in GOES]
    if not left or not all(one["blocked_by"] and one["ask_again_at"] for one in left):
        return LOOK_EVERY
    first = min(datetime.fromisoformat(one["ask_again_at"]) for one in left)
    return max(min(first - now, until - now, BLOCKED_LOOK_AT_MOST), LOOK_EVERY)


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
        still_held = former and former["refusals"] and planned.fate is PodPlan.EVICTED
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
