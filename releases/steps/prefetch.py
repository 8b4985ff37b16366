"""Bring the candidate's image and files to where its workers will run, before they take GPUs."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, gettext_noop, ngettext
from pydantic import Field

from clusters import selectors as fleet
from clusters.errors import ClusterRemoving, NoImageFits
from clusters.selectors import DeploymentStatus
from clusters.states import DeploymentState
from common.pages import formats
from common.reconcile import Effect, Operation, StepOutcome
from models_registry.errors import CodeNotAllowed, SignatureNotTrusted
from releases.candidates import ensure_candidate
from releases.messages import MessageTemplate, ReleaseMessage, count, text
from releases.models import Release
from releases.plans.step import DAY, StepFault, StepPosition, StepSpec, whole
from releases.progress import StepProgress
from releases.reconcilers.base import Executor, halt
from releases.states import Halt
from releases.steps.deploy import DeployStep

LOOK_EVERY = timedelta(seconds=1)
NAMED = 3
THERE = MessageTemplate(
    "prefetch.there", gettext_lazy("The model files are there after %(seconds)s s."), seconds=count
)
THERE_BUT = MessageTemplate(
    "prefetch.there_but",
    gettext_lazy(
        "The model files are there after %(seconds)s s, but not on %(places)s: workers fetch them there."
    ),
    seconds=count,
    places=text,
)
WARM = MessageTemplate("prefetch.warm", gettext_lazy("Its workers run already."))
NOT_BROUGHT = MessageTemplate(
    "prefetch.not_brought", gettext_lazy("The model files cannot be brought: %(fault)s"), fault=text
)
NOT_IN_TIME = MessageTemplate(
    "prefetch.not_in_time",
    gettext_lazy("The model files were not there within %(seconds)s s: %(fault)s"),
    seconds=str,
    fault=text,
)


class PrefetchStep(StepSpec):
    label = gettext_noop("Prefetch")
    icon = "download"
    about = gettext_noop(
        "Bring image and model files to where the candidate's workers will run, before they take GPUs."
    )
    order = 15
    starts_candidate = True
    brings_files = True

    kind: Literal["prefetch"] = "prefetch"
    machines: Annotated[int, whole(least=1, most=1000)] | None = Field(
        default=None,
        title=gettext_noop("Machines"),
        description=gettext_noop(
            "Number of machines; empty: all that could run the workers. Where all machines read one copy "
            "of the files, they pull the image."
        ),
    )
    within_seconds: Annotated[int, whole(least=10, most=7 * DAY)] = Field(
        default=DAY // 4,
        title=gettext_noop("Within (s)"),
        description=gettext_noop("Files that are not there by then fail the release."),
    )

    def faults(self, place: StepPosition) -> Iterator[StepFault]:
        if place.last(DeployStep) is not None:
            yield StepFault(_("the workers are already running; put the prefetch before the deploy step"))
        if place.last(PrefetchStep) is not None:
            yield StepFault(_("the files are already there; one prefetch is enough"))
        if not any(isinstance(step, DeployStep) for step in place.after):
            yield StepFault(_("no workers use the files; put a deploy step after it"))

    def summary(self) -> str:
        if self.machines is None:
            return _("prefetch the model files")
        words = ngettext(
            "prefetch the model files to %(number)s machine",
            "prefetch the model files to %(number)s machines",
            self.machines,
        )
        return words % {"number": f"{self.machines:,}"}

    def planned(self) -> str:
        if self.machines is None:
            return _("all machines")
        return ngettext("%(number)s machine", "%(number)s machines", self.machines) % {
            "number": self.machines
        }

    def found(self, progress: StepProgress) -> str:
        fetches = progress.known.get("fetches") or ()
        size = sum(one["size_bytes"] for one in fetches)
        if not size:
            return ""
        come = sum(one["come_bytes"] for one in fetches)
        rate = sum(one["bytes_per_second"] or 0 for one in fetches)
        words = {"percent": formats.percent(come / size), "rate": formats.byte_rate(rate)}
        return _("%(percent)s, %(rate)s") % words if rate else words["percent"]

    def executor(self) -> "PrefetchExecutor":
        return PrefetchExecutor(self)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMED]) + (f" +{len(names) - NAMED}" if len(names) > NAMED else "")


class PrefetchExecutor(Executor[PrefetchStep]):
    """The candidate's deployment, without workers yet: its cluster brings the files."""

    name = "prefetch"
    effect = Effect.ABSOLUTE

    def __init__(self, spec: PrefetchStep) -> None:
        super().__init__(spec)
        self._refusal = ""

    def intent(self, row: Release) -> Mapping[str, Any]:
        return {"deployment": row.candidate_deployment, "machines": self.spec.machines}

    def act(self, row: Release, operation: Operation) -> None:
        if row.is_warm:
            return
        try:
            ensure_candidate(row, replicas=0, prefetch_machines=self.spec.machines or 0)
        except (ClusterRemoving, CodeNotAllowed, SignatureNotTrusted, NoImageFits) as error:
            self._refusal = str(error)

    def observe(self, row: Release, operation: Operation) -> DeploymentStatus | str | None:
        """Return the deployment's status, or why it is refused; None: its workers run already."""
        if row.is_warm:
            return None
        return self._refusal or fleet.deployment_status(row.candidate_deployment)

    def settle(self, row: Release, seen: DeploymentStatus | str | None, now: datetime) -> StepOutcome:
        if seen is None:
            return self.go_on(row, note=WARM())
        if isinstance(seen, str):
            return halt(row, ReleaseMessage(words=seen), kind=Halt.FAIL)
        if seen.state == DeploymentState.FAILING:
            return halt(row, NOT_BROUGHT(fault=seen.reason), kind=Halt.FAIL)
        progress = {"fetches": seen.fetches, "waits_for": seen.reason}
        took = self.elapsed(row, now)
        if seen.is_applied:
            before = row.progress.get("fetches", [])
            done = [one if one.get("problem") else one | {"come_bytes": one["size_bytes"]} for one in before]
            lacking = [one["place"] for one in before if one.get("problem")]
            seconds = round(took.total_seconds())
            return self.go_on(
                row,
                note=THERE_BUT(seconds=seconds, places=_some(lacking)) if lacking else THERE(seconds=seconds),
                detail={"fetches": done, "waits_for": ""},
            )
        if took > timedelta(seconds=self.spec.within_seconds):
            why = NOT_IN_TIME(seconds=self.spec.within_seconds, fault=seen.reason)
            return halt(row, why, kind=Halt.FAIL)
        return self.look_again(row, progress=progress, after=LOOK_EVERY)
