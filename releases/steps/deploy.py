"""Bring the candidate's workers up."""

import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, Self

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, gettext_noop, ngettext, ngettext_lazy
from pydantic import Field, model_validator

from clusters import selectors as fleet
from clusters.adapters import AdapterStanding
from clusters.errors import ClusterRemoving, DeploymentMissing, NoImageFits
from clusters.selectors import DeploymentStatus
from clusters.services import deployments
from clusters.states import DeploymentState
from common.reconcile import Effect, Operation, StepOutcome
from models_registry.errors import CodeNotAllowed, SignatureNotTrusted
from releases.candidates import ensure_candidate
from releases.messages import Format, MessageTemplate, ReleaseMessage, count, text
from releases.models import Release
from releases.plans.step import DAY, StepFault, StepPosition, StepSpec, whole
from releases.progress import StepProgress
from releases.reconcilers.base import ACTOR, Executor, halt
from releases.reconcilers.disturbed import blame
from releases.selectors.adapters import adapter_standings
from releases.states import Halt

READY = MessageTemplate(
    "deploy.ready",
    ngettext_lazy(
        "%(ready)s worker ready after %(seconds)s s.",
        "%(ready)s workers ready after %(seconds)s s.",
        "ready",
    ),
    ready=count,
    seconds=count,
)
DO_NOT_START = MessageTemplate(
    "deploy.do_not_start", gettext_lazy("The candidate's workers do not start: %(fault)s"), fault=text
)
_FEW: Mapping[str, Format] = {"ready": count, "wanted": count, "seconds": str}
FEW_READY = MessageTemplate(
    "deploy.few_ready",
    gettext_lazy("Only %(ready)s of %(wanted)s workers were ready within %(seconds)s s."),
    **_FEW,
)
FEW_READY_SINCE = MessageTemplate(
    "deploy.few_ready_since",
    gettext_lazy("Only %(ready)s of %(wanted)s workers were ready within %(seconds)s s: %(fault)s"),
    **_FEW,
    fault=text,
)


ADAPTER_REFUSED = MessageTemplate(
    "deploy.adapter_refused",
    gettext_lazy("The candidate's workers do not load the service's adapter %(adapter)s: %(fault)s"),
    adapter=text,
    fault=text,
)


class DeployStep(StepSpec):
    label = gettext_noop("Deploy")
    icon = "server-bolt"
    about = gettext_noop(
        "Start the candidate's workers, or change how many there are, and wait until all are ready."
    )
    order = 20
    starts_candidate = True
    starts_workers = True
    start = {"share_percent": 100}

    kind: Literal["deploy"] = "deploy"
    replicas: Annotated[int, whole(least=1, most=1000)] | None = Field(
        default=None,
        title=gettext_noop("Replicas"),
        description=gettext_noop("How many workers; or set Share."),
    )
    share_percent: Annotated[int, whole(least=1, most=100)] | None = Field(
        default=None,
        title=gettext_noop("Share (%)"),
        description=gettext_noop(
            "As many workers as this percentage of stable's, rounded up; or set Replicas."
        ),
    )
    ready_within_seconds: Annotated[int, whole(least=5, most=DAY)] = Field(
        default=900,
        title=gettext_noop("Ready within (s)"),
        description=gettext_noop("Workers that are not ready by then fail the release."),
    )

    @model_validator(mode="after")
    def _says_how_many_once(self) -> Self:
        if (self.replicas is None) == (self.share_percent is None):
            raise ValueError(_("say either replicas or share_percent"))
        return self

    def faults(self, place: StepPosition) -> Iterator[StepFault]:
        before = place.last(DeployStep)
        if before is None:
            return
        if (before.replicas or 0) > (self.replicas or 1000):
            few = _("starts fewer workers than the %(replicas)s before it")
            yield StepFault(few % {"replicas": before.replicas}, "replicas")
        if (before.share_percent or 0) > (self.share_percent or 100):
            less = _("starts a smaller share than the %(share_percent)s %% before")
            yield StepFault(less % {"share_percent": before.share_percent}, "share_percent")

    def summary(self) -> str:
        if self.replicas is not None:
            words = ngettext("deploy %(number)s worker", "deploy %(number)s workers", self.replicas)
            return words % {"number": f"{self.replicas:,}"}
        if self.share_percent == 100:
            return _("deploy as many workers as stable")
        return _("deploy %(percent)s %% of the workers") % {"percent": self.share_percent}

    def planned(self) -> str:
        if self.replicas is not None:
            return ngettext("%(number)s worker", "%(number)s workers", self.replicas) % {
                "number": self.replicas
            }
        if self.share_percent == 100:
            return _("as many as stable")
        return _("%(percent)s%% of stable's workers") % {"percent": self.share_percent}

    def found(self, progress: StepProgress) -> str:
        known = progress.known
        if "wanted" not in known:
            return ""
        return _("%(ready)s of %(wanted)s ready") % {
            "ready": known.get("ready", 0),
            "wanted": known["wanted"],
        }

    def executor(self) -> "DeployExecutor":
        return DeployExecutor(self)


class DeployExecutor(Executor[DeployStep]):
    """Bring the candidate's workers up; a later deploy step of the plan changes how many there are."""

    name = "deploy"
    effect = Effect.ABSOLUTE

    def __init__(self, spec: DeployStep) -> None:
        super().__init__(spec)
        self._refusal = ""
        self._adapters: Mapping[str, AdapterStanding] = {}

    def intent(self, row: Release) -> Mapping[str, Any]:
        return {"deployment": row.candidate_deployment, "replicas": self._replicas(row)}

    def act(self, row: Release, operation: Operation) -> None:
        if row.is_warm:
            return  # as many as served before; to have more of them would take as long as a cold start
        try:
            ensure_candidate(row, replicas=self._replicas(row))
        except (ClusterRemoving, CodeNotAllowed, SignatureNotTrusted, NoImageFits) as error:
            self._refusal = str(error)
            return
        deployments.scale_deployment(
            actor=ACTOR,
            name=row.candidate_deployment,
            replicas=self._replicas(row),
            fence=operation.fence,
            reason="The plan says so.",
        )

    def observe(self, row: Release, operation: Operation) -> DeploymentStatus | str:
        if self._refusal:
            return self._refusal
        self._adapters = adapter_standings(row)
        return fleet.deployment_status(row.candidate_deployment)

    def settle(self, row: Release, seen: DeploymentStatus | str, now: datetime) -> StepOutcome:
        if isinstance(seen, str):
            return halt(row, ReleaseMessage(words=seen), kind=Halt.FAIL)
        progress: dict[str, Any] = {"ready": seen.ready, "wanted": seen.wanted, "fetches": seen.fetches}
        if seen.image_reason:
            progress |= {"image": seen.image_reference, "image_reason": seen.image_reason}
        if seen.state == DeploymentState.FAILING:
            return blame(row, DO_NOT_START(fault=seen.reason), now, kind=Halt.FAIL)
        if refused := next((item for item in self._adapters.items() if item[1].problem), None):
            fault = ADAPTER_REFUSED(adapter=refused[0], fault=refused[1].problem)
            return halt(row, fault, kind=Halt.FAIL)
        if seen.ready >= seen.wanted and not any(one.is_pending for one in self._adapters.values()):
            took = self.elapsed(row, now).total_seconds()
            return self.go_on(
                row,
                note=READY(ready=seen.ready, seconds=round(took)),
                detail=progress | {"fetches": []},
            )
        if self.elapsed(row, now) > timedelta(seconds=self.spec.ready_within_seconds):
            few = {"ready": seen.ready, "wanted": seen.wanted, "seconds": self.spec.ready_within_seconds}
            why = FEW_READY_SINCE(**few, fault=seen.reason) if seen.reason else FEW_READY(**few)
            return blame(row, why, now, kind=Halt.FAIL)
        return self.look_again(row, progress=progress, after=timedelta(seconds=0.5))

    def _replicas(self, row: Release) -> int:
        if self.spec.replicas is not None:
            return self.spec.replicas
        return math.ceil(stable_replicas(row) * (self.spec.share_percent or 100) / 100)


def stable_replicas(row: Release) -> int:
    """Workers that the service has: as others decided for the stable version, where that is left to them."""
    if row.service.pod.get("replicas") == "external" and row.stable_deployment:
        with suppress(DeploymentMissing):
            return max(1, fleet.deployment(row.stable_deployment).wanted_replicas)
    return row.service.replicas


def no_candidate(place: StepPosition) -> Iterator[StepFault]:
    """The fault of a step that needs the candidate's workers, where no deploy step is before it."""
    if place.last(DeployStep) is None:
        yield StepFault(_("no candidate is running yet; put a deploy step before it"))


def has_traffic(place: StepPosition) -> Iterator[StepFault]:
    """The fault of a step that asks for quality before traffic, where real requests meet the candidate."""
    if place.exposed_percent:
        yield StepFault(_("the candidate already has real traffic; put the step before the first weight"))
