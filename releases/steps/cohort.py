"""Send the candidate the requests of some clients, told by a header or a cookie."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, Self

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, gettext_noop
from pydantic import Field, model_validator

from common.reconcile import Effect, Operation, StepOutcome
from gateway.cohorts import cohort_fault
from gateway.routes import Cohort
from releases.messages import MessageTemplate
from releases.models import Release
from releases.plans.step import DAY, StepFault, StepPosition, StepSpec, whole
from releases.plans.words import duration
from releases.progress import StepProgress
from releases.reconcilers.pace import pace
from releases.reconcilers.routing import split_traffic
from releases.reconcilers.watching import EvidenceUpdate, TrafficObservation, WatchedExecutor, look
from releases.steps.deploy import no_candidate

SENT = MessageTemplate(
    "cohort.done",
    gettext_lazy("The candidate answered %(requests)s requests of the cohort, %(errors)s with an error."),
    requests=str,
    errors=str,
)
NO_STABLE = MessageTemplate(
    "cohort.no_stable", gettext_lazy("Nothing serves yet: the candidate gets all requests.")
)
WATCHING = "watching"


class CohortStep(StepSpec):
    label = gettext_noop("Cohort")
    icon = "users"
    about = gettext_noop(
        "Send the candidate all requests with this header or cookie until the release ends; they are counted "
        "apart and not compared with stable's, but errors in most of them roll back."
    )
    order = 37
    counts = True
    compares = True
    start = {"header": "x-cohort", "value": "beta", "seconds": 600}

    kind: Literal["cohort"] = "cohort"
    header: str = Field(
        default="",
        max_length=63,
        title=gettext_noop("Header"),
        description=gettext_noop("In lower case; or say cookie."),
    )
    cookie: str = Field(
        default="",
        max_length=63,
        title=gettext_noop("Cookie"),
        description=gettext_noop("Name of a cookie, instead of a header."),
    )
    value: str = Field(
        default="",
        max_length=128,
        title=gettext_noop("Value"),
        description=gettext_noop("Of the header or cookie, in full; or say percent."),
    )
    percent: Annotated[int, whole(least=1, most=99)] | None = Field(
        default=None,
        title=gettext_noop("Percent of values"),
        description=gettext_noop(
            "Of the header's values, the same ones each time; clients with others stay with stable until "
            "the promotion."
        ),
    )
    seconds: Annotated[int, whole(least=1, most=7 * DAY)] = Field(
        title=gettext_noop("Seconds"), description=gettext_noop("How long before the next step.")
    )
    most_percent: Annotated[int, whole(least=1, most=100)] = Field(
        default=50,
        title=gettext_noop("At most (%)"),
        description=gettext_noop("A cohort with a larger share of the requests rolls the release back."),
    )

    @model_validator(mode="after")
    def _is_a_cohort(self) -> Self:
        if fault := cohort_fault(self.cohort):
            raise ValueError(fault)
        return self

    @property
    def cohort(self) -> Cohort:
        return Cohort(self.header, self.cookie, self.value, self.percent or 0)

    @property
    def cohort_terms(self) -> "CohortStep":
        return self

    @property
    def exposed_percent(self) -> int:
        return self.most_percent

    @property
    def needs(self) -> str:
        return self.cohort.needs

    def faults(self, place: StepPosition) -> Iterator[StepFault]:
        yield from no_candidate(place)

    def summary(self) -> str:
        if self.percent:
            words = {"percent": self.percent, "header": self.header}
            return _("%(percent)s %% of the values of %(header)s") % words
        if self.cookie:
            return _("cookie %(cookie)s=%(value)s") % {"cookie": self.cookie, "value": self.value}
        return f"{self.header}: {self.value}"

    def spoken(self) -> str:
        return _("cohort %(cohort)s") % {"cohort": self.summary()}

    def planned(self) -> str:
        words = {"cohort": self.summary(), "duration": duration(self.seconds)}
        return _("%(cohort)s for %(duration)s") % words

    def found(self, progress: StepProgress) -> str:
        requests = progress.known.get("cohort_requests")
        if requests is None:
            return self.summary()
        return _("%(cohort)s, %(requests)s requests") % {"cohort": self.summary(), "requests": requests}

    def consequences(self, release: Release) -> tuple[str, ...]:
        words = {"cohort": self.summary(), "version": release.version}
        return (_("Requests with %(cohort)s go to %(version)s.") % words,)

    def executor(self) -> "CohortExecutor":
        return CohortExecutor(self)


class CohortExecutor(WatchedExecutor[CohortStep]):
    """Set the cohort once, then watch it; it stays until the release ends, either way."""

    name = "cohort"
    effect = Effect.ABSOLUTE

    def intent(self, row: Release) -> Mapping[str, Any]:
        return {"route": row.service.name, "cohort": self.spec.summary(), "phase": row.phase}

    def act(self, row: Release, operation: Operation) -> None:
        if row.stable_deployment and row.phase != WATCHING:
            split_traffic(row, operation, candidate_percent=row.candidate_percent)

    def observe(self, row: Release, operation: Operation) -> TrafficObservation:
        return look(row, operation.at, is_fresh=row.phase != WATCHING)

    def needs_clock(self, row: Release) -> bool:
        return row.phase == WATCHING

    def decide(
        self, row: Release, seen: TrafficObservation, view: EvidenceUpdate | None, now: datetime
    ) -> StepOutcome:
        if view is None:
            return self.go_on(row, note=NO_STABLE())
        if row.phase != WATCHING:
            return self.look_again(row, save={"phase": WATCHING})
        asked = view.save["baseline"].get("cohort", {})
        requests, errors = asked.get("requests", 0), asked.get("errors", 0)
        progress = {**row.progress, "cohort_requests": requests}
        left = timedelta(seconds=self.spec.seconds - view.clock.seconds)
        if left > timedelta(0):
            return self.look_again(row, progress=progress, after=min(pace.wait(), left))
        detail = {"cohort_requests": requests, "cohort_errors": errors}
        return self.go_on(row, note=SENT(requests=requests, errors=errors), detail=detail)
