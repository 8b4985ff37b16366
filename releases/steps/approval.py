"""Wait for a person."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, gettext_noop
from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from common import events
from common.reconcile import StepOutcome, move
from common.sentences import listed
from releases.approving import rules_of
from releases.events import ApprovalAsked, ApprovalDue
from releases.judge.verdict import JudgeDecision
from releases.messages import MessageTemplate, text
from releases.models import Approval as ApprovalRow
from releases.models import Release
from releases.plans.step import DAY, StepFault, StepPosition, StepSpec, whole
from releases.plans.words import duration
from releases.progress import StepProgress
from releases.reconcilers.base import halt
from releases.reconcilers.measured_split import measured
from releases.reconcilers.watching import EvidenceUpdate, TrafficObservation, WatchedExecutor
from releases.states import ApprovalDecision, Halt, ReleaseState

APPROVE = ApprovalDecision.APPROVE
WARN_BEFORE = timedelta(hours=4)
"""Of the deadline; of a short one its last quarter."""
MOST_OF_NAMES = 200
"""Characters that a step keeps of who approved it."""
WAITING = MessageTemplate("approval.waiting", gettext_lazy("Waiting for approval."))
NOT_REQUIRED = MessageTemplate("approval.not_required", gettext_lazy("Not required: the analysis passed."))
APPROVED = MessageTemplate("approval.approved", gettext_lazy("Approved: %(reason)s"), reason=text)
APPROVED_BY = MessageTemplate("approval.approved_by", gettext_lazy("%(name)s approved."), name=text)
APPROVED_AS = MessageTemplate(
    "approval.approved_as", gettext_lazy("%(name)s approved: %(reason)s"), name=text, reason=text
)
NOBODY_DECIDED = MessageTemplate(
    "approval.timeout", gettext_lazy("Nobody decided within %(duration)s."), duration=duration
)


class ApprovalStep(StepSpec):
    label = gettext_noop("Approval")
    icon = "user-check"
    about = gettext_noop("Wait for approval.")
    order = 70
    choices = {
        "approver": gettext_noop("approver"),
        "admin": gettext_noop("admin"),
        "roll_back": gettext_noop("roll back"),
        "reject": gettext_noop("reject"),
        "wait": gettext_noop("keep waiting"),
        "always": gettext_noop("always"),
        "unless_certified": gettext_noop("unless passed"),
    }
    helps = {
        "on_timeout": gettext_noop("What happens when nobody has decided by then."),
        "when": gettext_noop("Whether it is skipped when the candidate has passed the analysis."),
    }

    kind: Literal["approval"] = "approval"
    role: Literal["approver", "admin"] = Field(
        default="approver",
        title=gettext_noop("Role"),
        description=gettext_noop("The role in the service's team that may approve."),
    )
    people: Annotated[int, whole(least=1, most=10)] = Field(
        default=1,
        title=gettext_noop("People"),
        description=gettext_noop("How many different people must approve."),
    )
    separate_requester: Annotated[bool, Field(strict=True)] = Field(
        default=True,
        title=gettext_noop("Disallow self-approval"),
        description=gettext_noop("Whoever started the release may not approve it."),
    )
    timeout_seconds: Annotated[int, whole(least=10, most=30 * DAY)] = Field(
        default=DAY, title=gettext_noop("Timeout (s)")
    )
    on_timeout: Literal["roll_back", "reject", "wait"] = Field(
        default="roll_back",
        title=gettext_noop("On timeout"),
        description=gettext_noop("wait = the approval never times out."),
    )
    keep_judging: Annotated[bool, Field(strict=True)] = Field(
        default=True,
        title=gettext_noop("Keep judging"),
        description=gettext_noop("Roll back while waiting, too, when the judge says so."),
    )
    when: Literal["always", "unless_certified"] = Field(
        default="always",
        title=gettext_noop("When"),
        description=gettext_noop("unless_certified = skipped when the candidate has passed the analysis."),
    )

    @model_serializer(mode="wrap")
    def _written(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out what plans of the release before do not know, so that their hashes stay."""
        document: dict[str, Any] = write(self)
        return document if self.people > 1 else {k: v for k, v in document.items() if k != "people"}

    @property
    def approval(self) -> "ApprovalStep":
        return self

    def faults(self, place: StepPosition) -> Iterator[StepFault]:
        if self.when == "unless_certified" and all(step.analysis is None for step in place.before):
            yield StepFault(
                _("nothing before it can pass the candidate; put an analysis step before it"), "when"
            )

    def summary(self) -> str:
        if self.people > 1:
            names = {"people": self.people}
            if self.role == "admin":
                said = _("approval by %(people)s admins") % names
            else:
                said = _("approval by %(people)s approvers") % names
            return said if self.when == "always" else _("%(by)s, unless passed") % {"by": said}
        if self.when == "always":
            return _("approval by an admin") if self.role == "admin" else _("approval by an approver")
        if self.role == "admin":
            return _("approval by an admin, unless passed")
        return _("approval by an approver, unless passed")

    def planned(self) -> str:
        return self._by if self.when == "always" else _("%(by)s, unless passed") % {"by": self._by}

    def found(self, progress: StepProgress) -> str:
        return self._by if progress.state == "waiting" else ""

    @property
    def _by(self) -> str:
        if self.people > 1:
            words = {"people": self.people}
            if self.role == "admin":
                return _("by %(people)s admins") % words
            return _("by %(people)s approvers") % words
        return _("by an admin") if self.role == "admin" else _("by an approver")

    def executor(self) -> "ApprovalExecutor":
        return ApprovalExecutor(self)


class ApprovalExecutor(WatchedExecutor[ApprovalStep]):
    """Wait for a person's word, judging all the while."""

    name = "approval"

    def __init__(self, spec: ApprovalStep) -> None:
        super().__init__(spec)
        self.heeds_judge = spec.keep_judging

    def needs_clock(self, row: Release) -> bool:
        return False

    def decide(
        self, row: Release, seen: TrafficObservation, view: EvidenceUpdate | None, now: datetime
    ) -> StepOutcome:
        if row.state == ReleaseState.RUNNING and self._is_certified(view):
            return self.go_on(row, note=NOT_REQUIRED())
        words = list(
            ApprovalRow.objects.filter(
                release=row, step_index=row.step_index, plan_hash=row.plan_hash, decision=APPROVE
            )
            .select_related("by", "on_behalf_of")
            .order_by("pk")
        )
        # The policy is read only where somebody has approved: every second for hours is too often.
        rules = rules_of(row, self.spec) if words else None
        words = [one for one in words if rules is not None and rules.counts(one)]
        word = words[-1] if rules is not None and len(words) >= rules.people else None
        if row.state == ReleaseState.RUNNING:
            if word is None:
                return move(
                    ReleaseState.WAITING_APPROVAL,
                    note=WAITING(),
                    write=lambda: events.publish(ApprovalAsked(row.pk, row.step_index)),
                )
            names = listed(one.who for one in words)
            note = APPROVED_AS(name=names, reason=word.reason) if word.reason else APPROVED_BY(name=names)
            return self.go_on(row, note=note, actor=names[:MOST_OF_NAMES], detail={"approval": word.pk})
        if word is not None:
            return move(ReleaseState.RUNNING, note=APPROVED(reason=word.reason))
        timeout = timedelta(seconds=self.spec.timeout_seconds)
        if self.spec.on_timeout != "wait" and self.elapsed(row, now) > timeout:
            kind = Halt.REJECT if self.spec.on_timeout == "reject" else Halt.ROLLBACK
            return halt(row, NOBODY_DECIDED(duration=self.spec.timeout_seconds), kind=kind)
        progress = measured(row, seen)
        is_told = bool(row.progress.get("due_told"))
        if is_told or (self.spec.on_timeout != "wait" and self._is_nearly_over(row, now)):
            progress = {**progress, "due_told": True}
        tell = None if is_told or "due_told" not in progress else ApprovalDue(row.pk, row.step_index)
        return self.look_again(
            row, progress=progress, write=(lambda: events.publish(tell)) if tell is not None else None
        )

    def _is_nearly_over(self, row: Release, now: datetime) -> bool:
        left = timedelta(seconds=self.spec.timeout_seconds) - self.elapsed(row, now)
        return left <= min(timedelta(seconds=self.spec.timeout_seconds) / 4, WARN_BEFORE)

    def _is_certified(self, view: EvidenceUpdate | None) -> bool:
        return (
            self.spec.when == "unless_certified"
            and view is not None
            and view.verdict.decision is JudgeDecision.PROMOTE
        )
