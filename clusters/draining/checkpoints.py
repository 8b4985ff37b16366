"""Whether a pod keeps its work before it is evicted: who is asked, who has answered, whose time is up. Pure.

A pod asks for it by an annotation, see `StandingPod.checkpoint`. Whoever does not answer in time is evicted
all the same: a machine that is ill does not wait for ever.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from clusters.backends.standing import StandingPod
from clusters.draining.pods import PlannedPod

Entry = Mapping[str, Any]
GONE = "gone"
"""Fate of a pod that has left, in a drain's row."""


class Kept(StrEnum):
    """How far a pod is with it; as the row of a drain has it."""

    ASKED = "asked"
    DONE = "done"
    LATE = "late"
    """Its time was up first."""
    NOT_ASKED = "not_asked"
    """It could not be asked."""


@dataclass(frozen=True, slots=True)
class Sorted:
    """Pods whose turn to be evicted it is."""

    evict: Sequence[PlannedPod]
    ask: Sequence[PlannedPod]
    wait: Sequence[PlannedPod]
    kept: Mapping[str, str]
    """How far those are that are evicted after they were asked, by uid."""


def sorted_by(
    due: Iterable[PlannedPod], former: Iterable[Entry], at: datetime, *, most_seconds: int
) -> Sorted:
    """Whoever wants to be asked first is asked, then waited for, then evicted."""
    known = {one["uid"]: one for one in former}
    evict, ask, wait = [], [], []
    kept: dict[str, str] = {}
    for one in due:
        wanted = one.pod.checkpoint
        entry = known.get(one.pod.uid, {})
        if wanted is None or wanted.on_sigterm or not most_seconds:
            evict.append(one)
        elif not entry.get("checkpoint"):
            ask.append(one)
        elif (state := state_of(one.pod, entry, at, most_seconds=most_seconds)) is Kept.ASKED:
            wait.append(one)
        else:
            evict.append(one)
            kept[one.pod.uid] = str(state)
    return Sorted(evict, ask, wait, kept)


def state_of(pod: StandingPod, entry: Entry, at: datetime, *, most_seconds: int) -> Kept | None:
    """Of a pod as it is seen now; None: it is not to be asked, or was not yet."""
    state, asked_at = entry.get("checkpoint"), entry.get("checkpoint_asked_at")
    if not state or pod.checkpoint is None:
        return None
    if state != Kept.ASKED or not asked_at:
        return Kept(state)
    if pod.checkpoint.is_done:
        return Kept.DONE
    limit = timedelta(seconds=min(pod.checkpoint.seconds, most_seconds))
    return Kept.LATE if at - datetime.fromisoformat(asked_at) >= limit else Kept.ASKED


def columns_of(
    pod: StandingPod,
    former: Entry | None,
    asked: Mapping[str, str],
    now: datetime,
    *,
    most_seconds: int,
) -> dict[str, Any]:
    """What the row says of it from now on. `asked`: just now, by uid: empty, or why it could not be."""
    if pod.checkpoint is None or pod.checkpoint.on_sigterm:
        return {}
    if pod.uid in asked:
        why = asked[pod.uid]
        state = Kept.NOT_ASKED if why else Kept.ASKED
        return {"checkpoint": str(state), "checkpoint_asked_at": now.isoformat(), "checkpoint_why": why}
    before = former or {}
    state_now = state_of(pod, before, now, most_seconds=most_seconds)
    if state_now is None:
        return {}
    kept = {"checkpoint": str(state_now), "checkpoint_asked_at": before.get("checkpoint_asked_at")}
    kept["checkpoint_why"] = before.get("checkpoint_why", "")
    if state_now is Kept.DONE and before.get("checkpoint") == Kept.ASKED:
        kept["checkpoint_done_at"] = now.isoformat()
    elif before.get("checkpoint_done_at"):
        kept["checkpoint_done_at"] = before["checkpoint_done_at"]
    return kept


def words_of(entries: Collection[Entry]) -> str:
    """`2 of 3 pods have kept their work; train-0 had not after 600 s.` Empty: none was to be asked."""
    asked = [one for one in entries if one.get("checkpoint")]
    if not asked:
        return ""
    done = [one for one in asked if one["checkpoint"] == Kept.DONE]
    said = f"{len(done)} of {len(asked)} pods have written a checkpoint."
    unanswered = [one for one in asked if one["checkpoint"] == Kept.ASKED]
    if waits := [one["name"] for one in unanswered if one["fate"] != GONE]:
        said += f" Waiting for {', '.join(waits[:3])}."
    if ended := [one["name"] for one in unanswered if one["fate"] == GONE]:
        said += f" Ended by themselves first: {', '.join(ended[:3])}."
    if late := [one["name"] for one in asked if one["checkpoint"] == Kept.LATE]:
        said += f" Not in time: {', '.join(late[:3])}."
    if failed := [one for one in asked if one["checkpoint"] == Kept.NOT_ASKED]:
        said += f" {failed[0]['name']} could not be asked: {failed[0].get('checkpoint_why', '')}"
    return said


def grace_of(planned: PlannedPod, wanted: int | None) -> int | None:
    """Whoever keeps its work when it is told to end has its own time for that, at least."""
    pod = planned.pod
    if wanted is None or pod.checkpoint is None or not pod.checkpoint.on_sigterm:
        return wanted
    return None if pod.grace_seconds is None else max(wanted, pod.grace_seconds)
