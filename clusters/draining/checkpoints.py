"""Whether a pod keeps its work before it is evicted: who is asked, who has answered, whose time is up. Pure.

A pod asks for it by an annotation, see `ObservedPod.checkpoint`. Whoever does not answer in time is evicted
all the same: a machine that is ill does not wait for ever.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from clusters.backends.observed_pods import MOST_CHECKPOINT_SECONDS, CheckpointRequest, ObservedPod
from clusters.draining.options import DrainOptions
from clusters.draining.pods import PlannedPod, PodPlan

Entry = Mapping[str, Any]
GONE = "gone"
"""Fate of a pod that has left, in a drain's row."""


class CheckpointProgress(StrEnum):
    """Progress of a pod's checkpoint, as the drain's row stores it."""

    ASKED = "asked"
    DONE = "done"
    LATE = "late"
    """Its time was up first."""
    NOT_ASKED = "not_asked"
    """It could not be asked."""


ASKED_AGAIN_AFTER = timedelta(seconds=5)
"""A webhook that has not said that it is done."""
TOLD: Mapping[str, Any] = MappingProxyType({})
"""What webhooks have just said, by uid of the pod: `{said, words}` each."""


def with_webhooks(
    planned: Iterable[PlannedPod],
    options: DrainOptions,
    former: Iterable[Entry],
    told: Mapping[str, Any] = TOLD,
) -> list[PlannedPod]:
    """The pods of namespaces that have a webhook want to be asked by it, whatever their annotations say."""
    known = {one["uid"]: one for one in former}
    found = []
    for one in planned:
        url = options.policy_of(one.pod.namespace).checkpoint_url
        entry = known.get(one.pod.uid, {})
        is_meant = one.fate is PodPlan.EVICTED or entry.get("checkpoint")
        if not url or one.pod.has_ended or not is_meant:
            found.append(one)
            continue
        said = told[one.pod.uid].said if one.pod.uid in told else entry.get("webhook_said", "")
        checkpoint = CheckpointRequest(
            on_sigterm=one.pod.checkpoint is not None and one.pod.checkpoint.on_sigterm,
            seconds=MOST_CHECKPOINT_SECONDS,
            url=url,
            is_done=said == "done",
        )
        found.append(replace(one, pod=replace(one.pod, checkpoint=checkpoint)))
    return found


def asked_again(waiting: Iterable[PlannedPod], former: Iterable[Entry], at: datetime) -> list[PlannedPod]:
    """Return the pods whose webhook is asked again now, the longest wait first."""
    asked = {one["uid"]: one.get("webhook_at") for one in former}
    hooked = [one for one in waiting if one.pod.checkpoint is not None and one.pod.checkpoint.url]
    last = {one.pod.uid: asked.get(one.pod.uid) or "" for one in hooked}
    due = [
        one
        for one in hooked
        if not (said := last[one.pod.uid]) or at - datetime.fromisoformat(said) >= ASKED_AGAIN_AFTER
    ]
    return sorted(due, key=lambda one: last[one.pod.uid])


@dataclass(frozen=True, slots=True)
class EvictionBatch:
    """Pods whose turn to be evicted it is."""

    evict: Sequence[PlannedPod]
    ask: Sequence[PlannedPod]
    wait: Sequence[PlannedPod]
    kept: Mapping[str, str]
    """How far those are that are evicted after they were asked, by uid."""


def sorted_by(
    due: Iterable[PlannedPod], former: Iterable[Entry], at: datetime, *, most_seconds: int
) -> EvictionBatch:
    """Whoever wants to be asked first is asked, then waited for, then evicted."""
    known = {one["uid"]: one for one in former}
    evict, ask, wait = [], [], []
    kept: dict[str, str] = {}
    for one in due:
        wanted = one.pod.checkpoint
        entry = known.get(one.pod.uid, {})
        if wanted is None or (wanted.on_sigterm and not wanted.url) or not most_seconds:
            evict.append(one)
        elif not entry.get("checkpoint"):
            ask.append(one)
        elif (state := state_of(one.pod, entry, at, most_seconds=most_seconds)) is CheckpointProgress.ASKED:
            wait.append(one)
        else:
            evict.append(one)
            kept[one.pod.uid] = str(state)
    return EvictionBatch(evict, ask, wait, kept)


def state_of(pod: ObservedPod, entry: Entry, at: datetime, *, most_seconds: int) -> CheckpointProgress | None:
    """Return the progress of a pod as observed now; None: it is not to be asked, or was not yet."""
    state, asked_at = entry.get("checkpoint"), entry.get("checkpoint_asked_at")
    if not state or pod.checkpoint is None:
        return None
    if state != CheckpointProgress.ASKED or not asked_at:
        return CheckpointProgress(state)
    if pod.checkpoint.is_done:
        return CheckpointProgress.DONE
    limit = timedelta(seconds=min(pod.checkpoint.seconds, most_seconds))
    return (
        CheckpointProgress.LATE
        if at - datetime.fromisoformat(asked_at) >= limit
        else CheckpointProgress.ASKED
    )


def columns_of(
    pod: ObservedPod,
    former: Entry | None,
    asked: Mapping[str, str],
    now: datetime,
    *,
    most_seconds: int,
    told: Mapping[str, Any] = TOLD,
) -> dict[str, Any]:
    """Return the columns to store for a pod. `asked`: by uid, empty or why the pod could not be asked just
    now. `told`: answers of webhooks.
    """
    if pod.checkpoint is None or (pod.checkpoint.on_sigterm and not pod.checkpoint.url):
        return {}
    before = former or {}
    hook = _webhook_columns(pod, before, told, now)
    if pod.uid in asked:
        why = asked[pod.uid]
        state = CheckpointProgress.NOT_ASKED if why else CheckpointProgress.ASKED
        return {
            "checkpoint": str(state),
            "checkpoint_asked_at": now.isoformat(),
            "checkpoint_why": why,
            **hook,
        }
    state_now = state_of(pod, before, now, most_seconds=most_seconds)
    if state_now is None:
        return {}
    kept = {"checkpoint": str(state_now), "checkpoint_asked_at": before.get("checkpoint_asked_at")}
    kept["checkpoint_why"] = before.get("checkpoint_why", "")
    if state_now is CheckpointProgress.DONE and before.get("checkpoint") == CheckpointProgress.ASKED:
        kept["checkpoint_done_at"] = now.isoformat()
    elif before.get("checkpoint_done_at"):
        kept["checkpoint_done_at"] = before["checkpoint_done_at"]
    return kept | hook


def _webhook_columns(
    pod: ObservedPod, before: Entry, told: Mapping[str, Any], now: datetime
) -> dict[str, Any]:
    if pod.checkpoint is None or not pod.checkpoint.url:
        return {}
    if pod.uid in told:
        just = told[pod.uid]
        tries = before.get("webhook_tries", 0) + 1
        return {
            "webhook_said": just.said,
            "webhook_words": just.words,
            "webhook_at": now.isoformat(),
            "webhook_tries": tries,
        }
    return {name: before[name] for name in before if name.startswith("webhook_")}


def words_of(entries: Collection[Entry]) -> str:
    """`2 of 3 pods have kept their work; train-0 had not after 600 s.` Empty: none was to be asked."""
    asked = [one for one in entries if one.get("checkpoint")]
    if not asked:
        return ""
    done = [one for one in asked if one["checkpoint"] == CheckpointProgress.DONE]
    said = f"{len(done)} of {len(asked)} pods have written a checkpoint."
    unanswered = [one for one in asked if one["checkpoint"] == CheckpointProgress.ASKED]
    if waits := [_named(one) for one in unanswered if one["fate"] != GONE]:
        said += f" Waiting for {', '.join(waits[:3])}."
    if ended := [one["name"] for one in unanswered if one["fate"] == GONE]:
        said += f" Ended by themselves first: {', '.join(ended[:3])}."
    if late := [_named(one) for one in asked if one["checkpoint"] == CheckpointProgress.LATE]:
        said += f" Not in time: {', '.join(late[:3])}."
    if failed := [one for one in asked if one["checkpoint"] == CheckpointProgress.NOT_ASKED]:
        said += f" {failed[0]['name']} could not be asked: {failed[0].get('checkpoint_why', '')}"
    return said


def _named(entry: Entry) -> str:
    """`train-0 (its webhook: HTTP 503)`"""
    words = entry.get("webhook_words") or ("" if entry.get("webhook_said") != "away" else "no answer")
    return f"{entry['name']} (its webhook: {words})" if words else str(entry["name"])


def times_of(entries: Collection[Entry]) -> str:
    """`train-0 asked 08:30:05, done 08:31:00 UTC.` Empty: nobody was asked."""
    said = []
    for one in entries:
        if not one.get("checkpoint") or not one.get("checkpoint_asked_at"):
            continue
        asked = datetime.fromisoformat(one["checkpoint_asked_at"])
        done = one.get("checkpoint_done_at")
        ended = f", done {datetime.fromisoformat(done):%H:%M:%S}" if done else ""
        said.append(f"{one['name']} asked {asked:%H:%M:%S}{ended}")
    more = f"; and {len(said) - 5} more" if len(said) > 5 else ""
    return f"{'; '.join(said[:5])}{more} (UTC)." if said else ""


def news_of(entries: Iterable[Entry], former: Iterable[Entry]) -> list[tuple[str, str]]:
    """Name of the pod and what became of its checkpoint, for each that is otherwise than before."""
    before = {one["uid"]: one.get("checkpoint") for one in former}
    return [
        (_named(one), one["checkpoint"])
        for one in entries
        if one.get("checkpoint") and one["checkpoint"] != before.get(one["uid"])
    ]


def grace_of(planned: PlannedPod, wanted: int | None) -> int | None:
    """Whoever keeps its work when it is told to end has its own time for that, at least."""
    pod = planned.pod
    if wanted is None or pod.checkpoint is None or not pod.checkpoint.on_sigterm:
        return wanted
    return None if pod.grace_seconds is None else max(wanted, pod.grace_seconds)
