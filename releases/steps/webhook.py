"""Ask another system whether the release may continue."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, NamedTuple

from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, gettext_noop
from pydantic import Field

from accounts.models import WebhookEndpoint
from accounts.services.webhooks import signed_post, written_out
from common.reconcile import Operation, StepOutcome, lane_at
from common.sealed import CannotUnseal
from common.webhooks.sending import OK, DeliveryResponse
from releases.messages import MessageTemplate, text
from releases.models import Release, Service
from releases.plans.step import DAY, HOUR, StepSpec, whole
from releases.plans.words import duration
from releases.progress import StepProgress
from releases.reconcilers.base import halt
from releases.reconcilers.measured_split import measured
from releases.reconcilers.watching import EvidenceUpdate, TrafficObservation, WatchedExecutor
from releases.states import Halt

EVENT = "release.gate"
ACCEPTED = 202
MAY_CHANGE = frozenset({408, 425, 429})
MOST_OF_REASON = 300

SAID_YES = MessageTemplate(
    "webhook.yes", gettext_lazy("%(host)s said yes. %(reason)s"), host=text, reason=text
)
SAID_NO = MessageTemplate("webhook.no", gettext_lazy("%(host)s said no. %(reason)s"), host=text, reason=text)
GONE = MessageTemplate(
    "webhook.gone",
    gettext_lazy("Webhook %(number)s was removed or disabled: nobody can be asked."),
    number=str,
)
NO_DECISION = MessageTemplate(
    "webhook.no_answer",
    gettext_lazy("No decision of %(host)s within %(duration)s. %(reason)s"),
    host=text,
    duration=duration,
    reason=text,
)


class GateAnswer(NamedTuple):
    """The answer of the system that was asked."""

    result: Literal["continue", "wait", "fail"]
    reason: str
    status: int | None = None


class WebhookStep(StepSpec):
    label = gettext_noop("Webhook")
    icon = "webhook"
    about = gettext_noop(
        "Call a webhook of the team with the event release.gate, signed as all events are, and wait until it "
        'answers {"result": "continue"} or {"result": "fail"}; after "wait", 202, 5xx and silence it is '
        "asked again."
    )
    order = 46
    checks = True
    start = {"webhook": 1}
    choices = {
        "fail": gettext_noop("fail"),
        "roll_back": gettext_noop("roll back"),
        "continue": gettext_noop("continue"),
    }

    kind: Literal["webhook"] = "webhook"
    webhook: Annotated[int, whole(least=1, most=2**31)] = Field(
        title=gettext_noop("Webhook"),
        description=gettext_noop("Number of a webhook of the team, or of the installation."),
    )
    every_seconds: Annotated[int, whole(least=2, most=HOUR)] = Field(
        default=15,
        title=gettext_noop("Every (s)"),
        description=gettext_noop("How often it is asked until it has decided."),
    )
    timeout_seconds: Annotated[int, whole(least=5, most=7 * DAY)] = Field(
        default=HOUR, title=gettext_noop("Timeout (s)")
    )
    on_timeout: Literal["roll_back", "continue"] = Field(
        default="roll_back",
        title=gettext_noop("On timeout"),
        description=gettext_noop("What happens when it has not decided by then."),
    )

    def lacks(self, service: Service) -> str:
        if endpoints_of(service.team_id).filter(pk=self.webhook).exists():
            return ""
        return _("team %(team)s has no enabled webhook %(number)s") % {
            "team": service.team,
            "number": self.webhook,
        }

    @property
    def must_pass(self) -> bool:
        return self.on_timeout != "continue"

    def summary(self) -> str:
        words = {"number": self.webhook, "duration": duration(self.timeout_seconds)}
        if self.on_timeout == "continue":
            return _("ask webhook %(number)s for at most %(duration)s, then continue") % words
        return _("ask webhook %(number)s for at most %(duration)s, then roll back") % words

    def planned(self) -> str:
        return _("webhook %(number)s") % {"number": self.webhook}

    def found(self, progress: StepProgress) -> str:
        asked = progress.known.get("asked")
        return "" if not asked else _("asked %(asked)s times") % {"asked": asked}

    def executor(self) -> "WebhookExecutor":
        return WebhookExecutor(self)


def endpoints_of(team_id: int) -> QuerySet[WebhookEndpoint]:
    return WebhookEndpoint.objects.filter(Q(team=team_id) | Q(team=None, person=None), enabled=True)


class WebhookExecutor(WatchedExecutor[WebhookStep]):
    """Ask under one `webhook-id` for as long as it takes: a receiver tells repetitions by it. While the
    candidate has traffic the judge keeps judging."""

    name = "webhook"

    def __init__(self, spec: WebhookStep) -> None:
        super().__init__(spec)
        self._endpoint: WebhookEndpoint | None = None
        self._answer: GateAnswer | None = None

    def needs_clock(self, row: Release) -> bool:
        return False

    def lane(self, row: Release) -> str:
        endpoint = endpoints_of(row.team_id).filter(pk=self.spec.webhook).first()
        return lane_at("webhook", endpoint.url) if endpoint else ""

    def observe(self, row: Release, operation: Operation) -> Any:
        """Return a `TrafficObservation`, or None before the candidate has traffic."""
        self._endpoint = endpoints_of(row.team_id).filter(pk=self.spec.webhook).first()
        if self._endpoint is not None and self._is_due(row, operation.at):
            self._answer = _ask(self._endpoint, row, operation)
        return super().observe(row, operation) if row.candidate_percent else None

    def settle(self, row: Release, seen: TrafficObservation | None, now: datetime) -> StepOutcome:
        return self.decide(row, None, None, now) if seen is None else super().settle(row, seen, now)

    def decide(
        self, row: Release, seen: TrafficObservation | None, view: EvidenceUpdate | None, now: datetime
    ) -> StepOutcome:
        kind = Halt.ROLLBACK if row.candidate_percent else Halt.FAIL
        if self._endpoint is None:
            return halt(row, GONE(number=self.spec.webhook), kind=kind)
        host, answer = self._endpoint.host, self._answer
        progress = dict(row.progress if seen is None else measured(row, seen))
        if answer is not None:
            progress |= {
                "asked": row.progress.get("asked", 0) + 1,
                "asked_at": now.isoformat(),
                "status": answer.status,
                "reason": answer.reason,
            }
            if answer.result == "continue":
                return self.go_on(row, note=SAID_YES(host=host, reason=answer.reason), detail=progress)
            if answer.result == "fail":
                told = SAID_NO(host=host, reason=answer.reason)
                return halt(row, told, kind=kind, save={"progress": progress})
        left = timedelta(seconds=self.spec.timeout_seconds) - self.elapsed(row, now)
        if left <= timedelta(0):
            seconds = self.spec.timeout_seconds
            told = NO_DECISION(host=host, duration=seconds, reason=progress.get("reason", ""))
            if self.spec.on_timeout == "continue":
                return self.go_on(row, note=told, detail=progress)
            return halt(row, told, kind=kind, save={"progress": progress})
        after = min(left, timedelta(seconds=1 if row.candidate_percent else self.spec.every_seconds))
        return self.look_again(row, progress=progress, after=after)

    def _is_due(self, row: Release, now: datetime) -> bool:
        asked_at = row.progress.get("asked_at")
        every = timedelta(seconds=self.spec.every_seconds)
        return asked_at is None or now - datetime.fromisoformat(asked_at) >= every


def _ask(endpoint: WebhookEndpoint, row: Release, operation: Operation) -> GateAnswer:
    document = {
        "release_id": row.pk,
        "service": row.service.name,
        "version": str(row.version),
        "from_version": str(row.from_version) if row.from_version else None,
        "step": row.step_index + 1,
        "candidate_percent": row.candidate_percent,
        "requester": row.requester,
        "reason": row.reason,
        "asked": row.progress.get("asked", 0) + 1,
    }
    body = written_out(EVENT, operation.at, document).encode()
    name = f"gate_{row.pk}_{row.step_index}"
    try:
        return answer_of(signed_post(endpoint, message_id=name, body=body, now=operation.at))
    except (CannotUnseal, ValueError) as error:
        return GateAnswer("wait", str(error)[:MOST_OF_REASON])


def answer_of(response: DeliveryResponse) -> GateAnswer:
    """Read what was answered. Pure. A 2xx without a result means yes, as Flagger's hooks have it."""
    status = response.status
    said: Any = None
    try:
        said = json.loads(response.body)
    except ValueError:
        said = None
    told = said if isinstance(said, Mapping) else {}
    reason = str(told.get("reason", "") or response.error or "")[:MOST_OF_REASON]
    if status is None or status >= 500 or status in MAY_CHANGE or status == ACCEPTED:
        return GateAnswer("wait", reason, status)
    if status not in OK:
        return GateAnswer("fail", reason or f"HTTP {status}", status)
    result = told.get("result", "continue")
    if result in _RESULTS:
        return GateAnswer(result, reason, status)
    shown = str(result)[:40]
    return GateAnswer(
        "wait", _("Its result is %(result)s: continue, wait or fail.") % {"result": shown}, status
    )


_RESULTS: Sequence[str] = ("continue", "wait", "fail")
