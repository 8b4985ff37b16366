"""Let chosen clients reach the candidate before anybody else does."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Literal

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, gettext_noop

from clusters import selectors as fleet
from clusters.states import DeploymentState
from common.reconcile import Effect, Operation, StepOutcome
from releases.messages import MessageTemplate, text
from releases.models import Release, Service
from releases.plans.step import StepFault, StepPosition, StepSpec
from releases.progress import StepProgress
from releases.reconcilers.base import Executor
from releases.reconcilers.disturbed import blame
from releases.reconcilers.routing import split_traffic
from releases.states import ReleaseHeader
from releases.steps.deploy import has_traffic, no_candidate

OPENED = MessageTemplate(
    "preview.opened",
    gettext_lazy(
        "%(version)s answers at /%(service)s/ to requests with x-release: canary; all others go to stable."
    ),
    version=text,
    service=text,
)
OPENED_BY_KEY = MessageTemplate(
    "preview.opened_by_key",
    gettext_lazy(
        "%(version)s answers at /%(service)s/ to requests with x-release: canary and the service's "
        "x-release-key; all others go to stable."
    ),
    version=text,
    service=text,
)
FAILED = MessageTemplate(
    "preview.failed", gettext_lazy("The candidate's workers failed: %(fault)s."), fault=text
)


class PreviewStep(StepSpec):
    label = gettext_noop("Preview")
    icon = "eye"
    about = gettext_noop(
        "Let clients that send the service's release header reach the candidate, and nobody else, until "
        "the weight changes."
    )
    order = 36

    kind: Literal["preview"] = "preview"

    def faults(self, place: StepPosition) -> Iterator[StepFault]:
        yield from no_candidate(place)
        yield from has_traffic(place)

    def lacks(self, service: Service) -> str:
        if service.release_header != ReleaseHeader.OFF:
            return ""
        return _("no client may choose the candidate: let the service take the release header by a key")

    def summary(self) -> str:
        return _("preview by the release header")

    def planned(self) -> str:
        return _("by the release header")

    def found(self, progress: StepProgress) -> str:
        return "x-release: canary" if progress.known.get("is_open") else ""

    def executor(self) -> "PreviewExecutor":
        return PreviewExecutor(self)


class PreviewExecutor(Executor[PreviewStep]):
    """Route the candidate at 0 %: forced requests reach it, and are in no count that is judged."""

    name = "preview"
    effect = Effect.ABSOLUTE

    def intent(self, row: Release) -> Mapping[str, Any]:
        return {"route": row.service.name, "candidate_percent": 0}

    def act(self, row: Release, operation: Operation) -> None:
        split_traffic(row, operation, candidate_percent=0)

    def observe(self, row: Release, operation: Operation) -> tuple[str, str]:
        return fleet.deployment_state(row.candidate_deployment)

    def settle(self, row: Release, seen: tuple[str, str], now: datetime) -> StepOutcome:
        state, why = seen
        if state in (DeploymentState.FAILING, DeploymentState.REMOVED):
            return blame(row, FAILED(fault=why or state), now)
        opened = OPENED_BY_KEY if row.service.release_header == ReleaseHeader.SECRET else OPENED
        note = opened(version=str(row.version), service=row.service.name)
        return self.go_on(row, note=note, detail={"is_open": True})
