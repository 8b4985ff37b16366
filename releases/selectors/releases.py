"""Named reads of releases: where they stand, what they wait for, what the judge says."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from django.conf import settings
from django.db.models import (
    Count,
    DurationField,
    Exists,
    ExpressionWrapper,
    F,
    Min,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Sum,
)
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from accounts.selectors import teams_where
from accounts.states import Right
from clusters import selectors as fleet
from common import clock
from common.actor import Actor
from common.reconcile import kernel
from gateway import selectors as gateway
from gateway.traffic import TargetCounts
from models_registry.references import VersionReferences
from releases.approving import ApprovalCount, count_of
from releases.errors import UnknownDeployment
from releases.judge.evidence import JudgeEvidence
from releases.judge.threshold import StableTraffic, StoredThreshold, Threshold, is_unusable, threshold
from releases.judge.verdict import JudgeVerdict, verdict
from releases.models import Approval, ApprovalDelegation, EvidencePoint, Release, SlowThreshold
from releases.selectors.plans import plan_of
from releases.states import FINAL, IN_MOTION, MOVES, ReleaseState, ThresholdSource
from releases.succession import with_succession

LEARNT_FROM = timedelta(hours=6)
"""How far back stable's traffic says what is usual."""
THRESHOLDS_COMPARED = 5


@dataclass(frozen=True, slots=True)
class WaitingFor:
    """A person's action for which a release waits."""

    kind: str
    right: Right
    since: datetime | None
    until: datetime | None
    why: str


def releases_for(actor: Actor) -> QuerySet[Release]:
    rows = with_succession(Release.objects.for_actor(actor))
    return rows.select_related("service__cluster", "team", "version__model", "from_version__model")


def in_motion(actor: Actor) -> QuerySet[Release]:
    """Also those in a state that only a newer release of Slipway knows."""
    return releases_for(actor).exclude(state__in=FINAL).order_by("-created_at")


def count_by_state() -> dict[str, int]:
    """Count releases of all teams by state; every state is named."""
    counted = Release.objects.order_by().values_list("state").annotate(number=Count("pk"))
    return dict.fromkeys(ReleaseState.values, 0) | dict(counted)


def longest_approval_wait() -> timedelta | None:
    """Return the longest wait for an approval, over all teams; None: none waits."""
    waiting = Release.objects.filter(state=ReleaseState.WAITING_APPROVAL, halt="")
    since = waiting.filter(steps__index=F("step_index")).aggregate(first=Min("steps__started_at"))["first"]
    return max(timedelta(0), clock.now() - since) if since else None


def durations_by_outcome(
    bounds_seconds: Sequence[float],
) -> list[tuple[str, list[tuple[float, int]], float]]:
    """Count by final state: how many releases took at most so long, the last bound infinite, and the sum of
    seconds. One query."""
    counts: dict[str, Any] = {
        f"at_most_{number}": Count("pk", filter=Q(ended_at__lte=F("created_at") + timedelta(seconds=bound)))
        for number, bound in enumerate(bounds_seconds)
    }
    took = ExpressionWrapper(F("ended_at") - F("created_at"), output_field=DurationField())
    ended = Release.objects.filter(ended_at__isnull=False).order_by()
    grouped: Any = ended.values("state").annotate(all=Count("pk"), seconds=Sum(took), **counts)
    rows: dict[str, dict[str, Any]] = {row["state"]: row for row in grouped}
    found = []
    for state in (one for one in ReleaseState if MOVES.is_final(one)):
        row = rows.get(state.value)
        buckets = [
            (bound, row[f"at_most_{number}"] if row else 0) for number, bound in enumerate(bounds_seconds)
        ]
        everything = (math.inf, row["all"] if row else 0)
        found.append((state.value, [*buckets, everything], row["seconds"].total_seconds() if row else 0.0))
    return found


def waiting_for(actor: Actor) -> QuerySet[Release]:
    """Releases whose approval this actor may give."""
    approved = Approval.objects.filter(
        release=OuterRef("pk"), step_index=OuterRef("step_index"), by=actor.user_id
    )
    delegated = ApprovalDelegation.objects.in_force(kernel.clock()).filter(delegate=actor.user_id)
    may_approve = Q(team__in=teams_where(actor, Right.RELEASES_APPROVE)) | Q(
        team__in=delegated.values("team")
    )
    rows = in_motion(actor).filter(may_approve, state=ReleaseState.WAITING_APPROVAL, halt="")
    mine = rows.filter(Exists(approved)).prefetch_related("approvals")
    return rows.exclude(pk__in=[one.pk for one in mine if _counts(one, actor)])


def _counts(release: Release, actor: Actor) -> bool:
    """Whether what the actor approved still counts."""
    count = count_at_hand(release)
    return count is not None and any(one.by_id == actor.user_id for one in count.given)


def count_at_hand(release: Release) -> ApprovalCount | None:
    """Return where the approval stands that the release waits for; None: it waits for none."""
    if release.state != ReleaseState.WAITING_APPROVAL or release.halt:
        return None
    terms = plan_of(release).steps[release.step_index].approval
    return count_of(release, terms, release.approvals.all()) if terms else None


def waiting_for_what(release: Release) -> WaitingFor | None:
    """Return what a person must do; None when the release goes on by itself, or has ended."""
    if release.state == ReleaseState.STUCK:
        return WaitingFor(
            kind="person",
            right=Right.RELEASES_OPERATE,
            since=release.stuck_at,
            until=None,
            why=release.last_error,
        )
    if release.state != ReleaseState.WAITING_APPROVAL or release.halt:
        return None
    step = plan_of(release).steps[release.step_index].approval
    if step is None:
        return None
    row = next((one for one in release.steps.all() if one.index == release.step_index), None)
    since = row.started_at if row else None
    ends = step.on_timeout != "wait" and since is not None
    return WaitingFor(
        kind="approval",
        right=Right.RELEASES_APPROVE,
        since=since,
        until=since + timedelta(seconds=step.timeout_seconds) + held_for(release) if ends and since else None,
        why=_("The plan requires an approval before all traffic goes to the new version."),
    )


def held_for(release: Release) -> timedelta:
    """Return how long the present step was held by machines that left service, and by freezes."""
    held = release.baseline.get("held", {})
    return timedelta(seconds=held["seconds"] if held.get("step") == release.step_index else 0)


def verdict_of(release: Release) -> JudgeVerdict | None:
    """The judge's verdict as of the last look; None before it, and for what an older judge has written."""
    evidence = evidence_of(release)
    try:
        return verdict(evidence, plan_of(release).judge) if evidence else None
    except ValueError:
        return None


def evidence_of(release: Release) -> JudgeEvidence | None:
    """Return the verdict; None before the first look, and for what an older judge has written."""
    try:
        return JudgeEvidence.from_dict(release.evidence) if release.evidence else None
    except ValueError:
        return None


DECISIONS = ("never", "none", "insufficient", "promote", "roll_back")
"""What the analysis of a release can say: nothing to analyse, nothing yet, or the verdict's decision."""


def decision_of(release: Release, verdict: JudgeVerdict | None) -> str:
    """Return one of DECISIONS; `verdict` as `verdict_of` gives it."""
    if verdict is not None:
        return str(verdict.decision)
    has_canary = any(step.candidate_percent is not None for step in plan_of(release).steps)
    return "none" if release.in_motion and release.from_version_id and has_canary else "never"


def slow_threshold(release: Release, *, at: datetime, counts: TargetCounts) -> Threshold | None:
    """Return from when on an answer is slow, as known at this look; `counts` are stable's now."""
    objective = plan_of(release).judge.slow_above_ms
    if objective is not None:
        return threshold(objective, None, ())
    rows = list(
        SlowThreshold.objects.filter(service=release.service_id).order_by("-pk")[:THRESHOLDS_COMPARED]
    )
    stretches = _stretches_of_stable(release, at=at, counts=counts)
    return threshold(None, _kept(rows), stretches, slots=fleet.slots_of(release.stable_deployment))


def is_always_saturated(release: Release, *, at: datetime, counts: TargetCounts) -> bool:
    """Whether no threshold can be learnt because stable had no free slot whenever it answered."""
    stretches = _stretches_of_stable(release, at=at, counts=counts)
    return is_unusable(stretches, slots=fleet.slots_of(release.stable_deployment))


def _kept(rows: Sequence[SlowThreshold]) -> StoredThreshold | None:
    """`rows`: the latest first."""
    if not rows:
        return None
    since_person = next((n for n, row in enumerate(rows) if row.source == ThresholdSource.PERSON), len(rows))
    lowest = min(row.milliseconds for row in rows[: since_person + 1])
    source: Literal["person", "learnt"] = "person" if rows[0].source == ThresholdSource.PERSON else "learnt"
    return StoredThreshold(rows[0].milliseconds, source, lowest)


def _stretches_of_stable(release: Release, *, at: datetime, counts: TargetCounts) -> list[StableTraffic]:
    history = gateway.answered_lately(
        release.service.name, release.stable_deployment, since=at - LEARNT_FROM, until=at, now=counts
    )
    return [StableTraffic(one.requests, one.errors, one.latency_ms, one.seconds) for one in history]


def threshold_of(release: Release) -> Threshold | None:
    """The one that this release is judged by; None before it has one."""
    known = release.baseline.get("threshold")
    if known is None:
        # Releases of before thresholds had a source.
        milliseconds = release.evidence.get("slow_threshold_ms")
        return None if milliseconds is None else Threshold(milliseconds, "learnt")
    return Threshold.from_dict(known)


def curve_of(release: Release) -> list[dict[str, Any]]:
    """The judge's curve so far, as `judge.CurvePoint` writes it."""
    return list(EvidencePoint.objects.filter(release=release).values_list("curve", flat=True))


def weights(release: Release | None) -> dict[str, Any]:
    """Desired and observed shares in percent of a release in motion; None: all to stable."""
    percent = release.candidate_percent if release else 0
    progress = release.progress if release and is_measured_at(release.progress, percent) else {}
    observed = progress.get("observed_percent")
    return {
        "desired": {"stable": 100 - percent, "candidate": percent},
        "observed": {
            "stable": None if observed is None else round(100 - observed, 2),
            "candidate": observed,
        },
        "requests": progress.get("requests", 0),
        "interval_percent": progress.get("interval_percent"),
    }


def is_measured_at(progress: Mapping[str, Any], percent: int) -> bool:
    """Whether what a step has measured of the split was measured at this weight, not at one before."""
    return bool(progress.get("wished_percent") == percent)


def served_by(deployment: str) -> tuple[int, int | None]:
    """Ids of the deployment's service, and of that one's release in motion. Raises UnknownDeployment."""
    found = (
        Release.objects.filter(candidate_deployment=deployment).values_list("service_id", flat=True).first()
    )
    if found is None:
        raise UnknownDeployment(
            _("No release has made a deployment %(deployment)s.") % {"deployment": deployment}
        )
    moving = Release.objects.filter(service=found, state__in=IN_MOTION).values_list("pk", flat=True).first()
    return found, moving


def page_of(release: Release) -> str:
    return f"{settings.SLIPWAY_PUBLIC_URL}/releases/{release.pk}/"


CANDIDATES = VersionReferences(
    Release.objects.filter(state__in=IN_MOTION),
    "version",
    "service__model",
    gettext_noop("service {} (candidate)"),
    ("service__name",),
)


def ways_back() -> dict[int, list[str]]:
    """Versions that a rollback would return to, or that served last: by id, of which services, in words."""
    found: dict[int, list[str]] = defaultdict(list)
    promoted = Release.objects.filter(service=OuterRef("service"), state=ReleaseState.PROMOTED)
    newest = Release.objects.filter(pk=Subquery(promoted.order_by("-ended_at", "-pk").values("pk")[:1]))
    rows = newest.values_list("service__name", "version_id", "from_version_id", "service__stable_version_id")
    for name, version_id, before_id, stable_id in rows.order_by("service__name"):
        if version_id != stable_id:
            found[version_id].append(_("served last by service %(name)s") % {"name": name})
        if before_id is not None:
            found[before_id].append(_("rollback target of service %(name)s") % {"name": name})
    return dict(found)
