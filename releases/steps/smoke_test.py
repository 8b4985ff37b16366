"""Do the candidate's workers answer?"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Literal

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, gettext_noop, ngettext, ngettext_lazy
from pydantic import Field

from clusters import selectors as fleet
from clusters.scrape_targets import server_of
from clusters.selectors import DeploymentStatus
from clusters.states import DeploymentState
from common.reconcile import Operation, StepOutcome
from releases import smoke
from releases.messages import MessageTemplate, count, nested, text
from releases.models import Release
from releases.plans.step import HOUR, StepFault, StepPosition, StepSpec, whole
from releases.progress import StepProgress
from releases.reconcilers.base import Executor
from releases.reconcilers.disturbed import blame
from releases.states import Halt
from releases.steps.deploy import no_candidate

LONGEST_ANSWER_SECONDS = 10.0
"""One step of the kernel takes seconds: a worker that needs longer for 16 tokens is not fit for traffic."""

ANSWERED = MessageTemplate(
    "smoke_test.answered",
    ngettext_lazy(
        "%(requests)s real request answered, the slowest in %(slowest)s ms.",
        "%(requests)s real requests answered, the slowest in %(slowest)s ms.",
        "requests",
    ),
    requests=count,
    slowest=str,
)
FAILED = MessageTemplate(
    "smoke_test.failed",
    gettext_lazy("The smoke test failed on request %(number)s of %(requests)s: %(fault)s."),
    number=str,
    requests=str,
    fault=nested,
)
TOO_SLOW = MessageTemplate(
    "smoke_test.too_slow",
    gettext_lazy("answered in %(took)s ms, more than the %(limit)s ms allowed"),
    took=str,
    limit=str,
)
DIED = MessageTemplate(
    "smoke_test.died",
    gettext_lazy("The candidate's workers died before any traffic: %(fault)s"),
    fault=text,
)
NO_WORKER = MessageTemplate(
    "smoke_test.no_worker", gettext_lazy("No worker of the candidate was there to be asked.")
)


def _named(row: Release) -> str:
    """Return a request's name of the candidate's model. Servers of other makers may know one name alone."""
    is_ours = server_of(fleet.deployment(row.candidate_deployment)) is None
    return str(row.version) if is_ours else row.service.name


class SmokeTestStep(StepSpec):
    label = gettext_noop("Smoke test")
    icon = "flame"
    about = gettext_noop(
        "Send real requests straight to the candidate; one failed request fails the release."
    )
    order = 30
    checks = True
    starts_candidate = True
    probes = True

    kind: Literal["smoke_test"] = "smoke_test"
    requests: Annotated[int, whole(least=1, most=1000)] = Field(default=5, title=gettext_noop("Requests"))
    timeout_seconds: Annotated[int, whole(least=1, most=HOUR)] = Field(
        default=60,
        title=gettext_noop("Timeout (s)"),
        description=gettext_noop("For all requests together."),
    )
    max_latency_ms: Annotated[int, whole(least=1, most=HOUR * 1000)] | None = Field(
        default=None,
        title=gettext_noop("Max latency (ms)"),
        description=gettext_noop("A slower answer fails the test; empty: no limit."),
    )

    def faults(self, place: StepPosition) -> Iterator[StepFault]:
        yield from no_candidate(place)
        if place.percent:
            yield StepFault(
                _("the candidate already has real traffic; put the smoke test before the first weight")
            )

    def summary(self) -> str:
        if self.max_latency_ms is None:
            words = ngettext(
                "smoke test: %(number)s request", "smoke test: %(number)s requests", self.requests
            )
        else:
            words = ngettext(
                "smoke test: %(number)s request under %(limit)s ms",
                "smoke test: %(number)s requests under %(limit)s ms",
                self.requests,
            )
        return words % {"number": f"{self.requests:,}", "limit": self.max_latency_ms}

    def planned(self) -> str:
        return ngettext("%(number)s request", "%(number)s requests", self.requests) % {
            "number": self.requests
        }

    def found(self, progress: StepProgress) -> str:
        good = sum(not probe["fault"] for probe in progress.known.get("probes", []))
        return _("%(good)s of %(requests)s answered") % {"good": good, "requests": self.requests}

    def executor(self) -> "SmokeTestExecutor":
        return SmokeTestExecutor(self)


@dataclass(frozen=True, slots=True)
class SmokeTestObservation:
    status: DeploymentStatus
    probe: smoke.SmokeTestProbe | None


class SmokeTestExecutor(Executor[SmokeTestStep]):
    """Real requests, one per look, to each worker in turn; the first bad answer ends the release."""

    name = "smoke_test"

    def lane(self, row: Release) -> str:
        """Return the cluster's lane: it asks the workers itself."""
        return row.service.cluster.own_lane

    def observe(self, row: Release, operation: Operation) -> SmokeTestObservation:
        status = fleet.deployment_status(row.candidate_deployment)
        endpoints = fleet.endpoints(row.candidate_deployment).addresses
        if not endpoints:
            return SmokeTestObservation(status, None)
        probes = row.progress.get("probes", [])
        number = len(probes)
        left_seconds = self.spec.timeout_seconds - sum(probe["milliseconds"] for probe in probes) / 1000
        address, port = endpoints[number % len(endpoints)]
        probe = smoke.prober_for(row.service.engine).ask(
            worker=f"{address}:{port}",
            base_url=f"http://{address}:{port}",
            number=number,
            model=_named(row),
            timeout_seconds=max(min(left_seconds, LONGEST_ANSWER_SECONDS), 0.1),
        )
        return SmokeTestObservation(status, probe)

    def settle(self, row: Release, seen: SmokeTestObservation, now: datetime) -> StepOutcome:
        if seen.status.state == DeploymentState.FAILING:
            return blame(row, DIED(fault=seen.status.reason), now, kind=Halt.FAIL)
        if seen.probe is None:
            if self.elapsed(row, now) > timedelta(seconds=self.spec.timeout_seconds):
                return blame(row, NO_WORKER(), now, kind=Halt.FAIL)
            return self.look_again(row)
        probes = [*row.progress.get("probes", []), seen.probe.as_json()]
        limit = self.spec.max_latency_ms
        fault = seen.probe.fault
        if not fault and limit is not None and seen.probe.milliseconds > limit:
            fault = TOO_SLOW(took=round(seen.probe.milliseconds), limit=limit)
        if fault:
            reason = FAILED(number=len(probes), requests=self.spec.requests, fault=fault)
            return blame(row, reason, now, kind=Halt.FAIL, save={"progress": {"probes": probes}})
        if len(probes) < self.spec.requests:
            return self.look_again(row, progress={"probes": probes}, after=timedelta(0))
        slowest = max(probe["milliseconds"] for probe in probes)
        note = ANSWERED(requests=len(probes), slowest=round(slowest))
        return self.go_on(row, note=note, detail={"probes": probes})
