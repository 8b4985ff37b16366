"""Is the candidate fast enough under a load that its team has described?"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, gettext_noop
from pydantic import Field, StringConstraints

from benchmarks.errors import BenchmarkOver
from benchmarks.models import Benchmark, BenchmarkCell
from benchmarks.selectors import CellEstimate, estimates
from benchmarks.services import cancel_benchmark, create_benchmark
from benchmarks.states import BENCHMARK_ENDED, BenchmarkState
from common.errors import SlipwayError
from common.reconcile import Effect, Operation, StepOutcome
from releases.messages import MessageTemplate, count, number, text
from releases.models import Release, Service
from releases.plans.step import DAY, HOUR, StepFault, StepPosition, StepSpec, whole
from releases.progress import StepProgress
from releases.reconcilers.base import ACTOR, Executor, halt
from releases.states import Halt

LOOK_EVERY = timedelta(seconds=5)
HIGHER_IS_BETTER = ("goodput", "output_rate")


def _figure(value: str) -> str:
    return value.replace("_", " ")


_TOLD: Mapping[str, Any] = {
    "figure": _figure,
    "value": number,
    "low": number,
    "high": number,
    "bound": number,
    "unit": text,
    "rate": number,
    "benchmark": text,
}
PASSED = MessageTemplate(
    "benchmark.passed",
    gettext_lazy(
        "%(figure)s %(value)s %(unit)s (%(low)s to %(high)s) at %(rate)s requests/s keeps the bound of "
        "%(bound)s: benchmark %(benchmark)s."
    ),
    **_TOLD,
)
BROKEN = MessageTemplate(
    "benchmark.broken",
    gettext_lazy(
        "%(figure)s %(value)s %(unit)s (%(low)s to %(high)s) at %(rate)s requests/s breaks the bound of "
        "%(bound)s: benchmark %(benchmark)s."
    ),
    **_TOLD,
)
UNSURE = MessageTemplate(
    "benchmark.unsure",
    gettext_lazy(
        "%(figure)s %(value)s %(unit)s at %(rate)s requests/s does not tell: its interval, %(low)s to "
        "%(high)s, holds the bound of %(bound)s (benchmark %(benchmark)s)."
    ),
    **_TOLD,
)
NO_FIGURE = MessageTemplate(
    "benchmark.no_figure",
    gettext_lazy("Benchmark %(benchmark)s has no %(figure)s of two valid runs at least."),
    benchmark=text,
    figure=_figure,
)
ENDED = MessageTemplate(
    "benchmark.ended",
    gettext_lazy("Benchmark %(benchmark)s is %(state)s. %(why)s"),
    benchmark=text,
    state=lambda value: str(BenchmarkState(value).label).lower(),
    why=text,
)
REFUSED = MessageTemplate(
    "benchmark.refused", gettext_lazy("The benchmark cannot begin: %(fault)s"), fault=text
)
NOT_IN_TIME = MessageTemplate(
    "benchmark.not_in_time",
    gettext_lazy("Benchmark %(benchmark)s was not over within %(seconds)s s."),
    benchmark=text,
    seconds=count,
)


class BenchmarkStep(StepSpec):
    label = gettext_noop("Benchmark")
    icon = "gauge"
    about = gettext_noop(
        "Run the load of a benchmark of the team against servers of the candidate's version; continue when "
        "the whole 95 % interval of a figure keeps the bound."
    )
    order = 18
    checks = True
    start = {"like": "chat-latency", "bound": 500}
    choices = {
        "ask": gettext_noop("require approval"),
        "fail": gettext_noop("fail"),
        "continue": gettext_noop("continue"),
    }

    kind: Literal["benchmark"] = "benchmark"
    like: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=100)] = Field(
        title=gettext_noop("Benchmark"),
        description=gettext_noop(
            "Name of a benchmark of the team: its load, cluster and best configuration are taken."
        ),
    )
    figure: Literal["ttft_p50", "ttft_p95", "tpot_p95", "e2e_p95", "goodput", "output_rate"] = Field(
        default="ttft_p95",
        title=gettext_noop("Figure"),
        description=gettext_noop("At the highest rate of the load; latencies in ms."),
    )
    bound: Annotated[float, Field(gt=0.0, allow_inf_nan=False)] = Field(
        title=gettext_noop("Bound"),
        description=gettext_noop("The most of a latency, the least of goodput and output_rate."),
    )
    repeats: Annotated[int, whole(least=2, most=20)] = Field(
        default=3,
        title=gettext_noop("Repeats"),
        description=gettext_noop("Runs, each with fresh servers; their spread makes the interval."),
    )
    timeout_seconds: Annotated[int, whole(least=60, most=7 * DAY)] = Field(
        default=4 * HOUR, title=gettext_noop("Timeout (s)")
    )
    on_inconclusive: Literal["ask", "fail", "continue"] = Field(
        default="fail",
        title=gettext_noop("If inconclusive"),
        description=gettext_noop(
            "When the interval holds the bound: ask = go on to the next approval; fail = end the release; "
            "continue = go on."
        ),
    )

    @property
    def must_pass(self) -> bool:
        return self.on_inconclusive != "continue"

    def faults(self, place: StepPosition) -> Iterator[StepFault]:
        if place.exposed_percent:
            yield StepFault(_("the candidate already has real traffic; put the step before the first weight"))
        if self.on_inconclusive == "ask" and not any(
            step.approval is not None and step.approval.when == "always" for step in place.after
        ):
            yield StepFault(
                _("on_inconclusive is ask, but no later approval always asks; add one or choose another way"),
                "on_inconclusive",
            )

    def lacks(self, service: Service) -> str:
        found = Benchmark.objects.filter(team=service.team_id, name=self.like).first()
        if found is None:
            return _("the team has no benchmark %(name)s") % {"name": self.like}
        if found.spec.get("target"):
            return _("the benchmark %(name)s loads a running service, not servers of its own") % {
                "name": self.like
            }
        if _configuration(found) is None:
            return _(
                "the benchmark %(name)s has several configurations and none of them is known as best"
            ) % {"name": self.like}
        return ""

    def summary(self) -> str:
        words = {"like": self.like, "figure": _figure(self.figure), "bound": f"{self.bound:g}"}
        if self.figure in HIGHER_IS_BETTER:
            return _("benchmark like %(like)s, %(figure)s at least %(bound)s") % words
        return _("benchmark like %(like)s, %(figure)s at most %(bound)s ms") % words

    def planned(self) -> str:
        return self.like

    def found(self, progress: StepProgress) -> str:
        if "value" not in progress.known:
            return str(progress.known.get("benchmark", ""))
        return f"{_figure(self.figure)} {progress.known['value']:.4g} {progress.known['unit']}"

    def executor(self) -> "BenchmarkExecutor":
        return BenchmarkExecutor(self)


class BenchmarkExecutor(Executor[BenchmarkStep]):
    """Order the benchmark once, under a name that follows from release and step, and judge how it ended."""

    name = "benchmark"
    effect = Effect.CREATE

    def __init__(self, spec: BenchmarkStep) -> None:
        super().__init__(spec)
        self._refusal = ""

    def intent(self, row: Release) -> Mapping[str, Any]:
        return {"benchmark": _name(row)}

    def act(self, row: Release, operation: Operation) -> None:
        if _benchmark_of(row) is not None:
            return
        like = Benchmark.objects.filter(team=row.team_id, name=self.spec.like).select_related(
            "scenario", "cluster"
        )
        if (template := like.first()) is None or (cell := _configuration(template)) is None:
            self._refusal = self.spec.lacks(row.service)
            return
        try:
            create_benchmark(
                actor=ACTOR,
                team=row.team,
                name=_name(row),
                cluster=template.cluster.name,
                scenario=template.scenario.content,
                spec=_spec(template, cell, version=str(row.version), repeats=self.spec.repeats),
                description=str(row),
            )
        except SlipwayError as error:
            self._refusal = str(error)

    def observe(self, row: Release, operation: Operation) -> Benchmark | None:
        return _benchmark_of(row)

    def settle(self, row: Release, seen: Benchmark | None, now: datetime) -> StepOutcome:
        if seen is None:
            return halt(row, REFUSED(fault=self._refusal or _("It is gone.")), kind=Halt.FAIL)
        progress: dict[str, Any] = {"benchmark": seen.name}
        if seen.state not in BENCHMARK_ENDED:
            if self.elapsed(row, now) <= timedelta(seconds=self.spec.timeout_seconds):
                return self.look_again(row, progress=progress, after=LOOK_EVERY)
            with suppress(BenchmarkOver):
                cancel_benchmark(seen, actor=ACTOR, reason=str(row))
            told = NOT_IN_TIME(benchmark=seen.name, seconds=self.spec.timeout_seconds)
            return halt(row, told, kind=Halt.FAIL, save={"progress": progress})
        if seen.state != BenchmarkState.FINISHED:
            told = ENDED(benchmark=seen.name, state=seen.state, why=seen.reason)
            return halt(row, told, kind=Halt.FAIL, save={"progress": progress})
        found = _measured(seen, self.spec.figure)
        if found is None or found.value.low is None or found.value.high is None:
            told = NO_FIGURE(benchmark=seen.name, figure=self.spec.figure)
            return halt(row, told, kind=Halt.FAIL, save={"progress": progress})
        figures = {
            "figure": self.spec.figure,
            "value": round(found.value.value, 4),
            "low": round(found.value.low, 4),
            "high": round(found.value.high, 4),
            "bound": self.spec.bound,
            "unit": found.unit,
            "rate": found.rate,
            "benchmark": seen.name,
        }
        progress |= figures
        if is_kept(self.spec, found.value.low, found.value.high):
            return self.go_on(row, note=PASSED(**figures), detail=progress)
        if is_kept(self.spec, found.value.high, found.value.low) and self.spec.on_inconclusive != "fail":
            return self.go_on(row, note=UNSURE(**figures), detail=progress)
        is_broken = not is_kept(self.spec, found.value.high, found.value.low)
        told = BROKEN(**figures) if is_broken else UNSURE(**figures)
        return halt(row, told, kind=Halt.FAIL, save={"progress": progress})


def is_kept(spec: BenchmarkStep, low: float, high: float) -> bool:
    """Whether the end of the interval that is worse keeps the bound; called with them swapped: the better."""
    return low >= spec.bound if spec.figure in HIGHER_IS_BETTER else high <= spec.bound


def cancel_of_release(release: Release) -> None:
    """Stop the benchmark that a release which has ended still runs."""
    running = Benchmark.objects.filter(
        team=release.team_id, name__startswith=f"release-{release.pk}-", state=BenchmarkState.RUNNING
    )
    for one in running:
        with suppress(BenchmarkOver):
            cancel_benchmark(one, actor=ACTOR, reason=str(release))


def _name(row: Release) -> str:
    return f"release-{row.pk}-step-{row.step_index + 1}"


def _benchmark_of(row: Release) -> Benchmark | None:
    return Benchmark.objects.filter(team=row.team_id, name=_name(row)).first()


def _configuration(template: Benchmark) -> BenchmarkCell | None:
    """Return its best configuration, or the only one."""
    cells = BenchmarkCell.objects.filter(benchmark=template).select_related("image")
    best = template.conclusion.get("best")
    if best is not None:
        return cells.filter(pk=best).first()
    found = list(cells[:2])
    return found[0] if len(found) == 1 else None


def _spec(template: Benchmark, cell: BenchmarkCell, *, version: str, repeats: int) -> dict[str, Any]:
    space: dict[str, Any] = {
        "engines": [cell.engine],
        "parameters": {name: [value] for name, value in cell.parameters.items()},
    }
    if cell.machine:
        space["machines"] = {cell.machine: template.spec["space"]["machines"][cell.machine]}
    if cell.image is not None:
        space["images"] = [cell.image.name]
    kept = ("device", "load_engine", "ready_within_seconds")
    return {
        "versions": [version],
        "repeats": repeats,
        "space": space,
        **{name: template.spec[name] for name in kept if name in template.spec},
    }


def _measured(benchmark: Benchmark, figure: str) -> CellEstimate | None:
    """Return the figure at the highest rate."""
    found = [one for some in estimates(benchmark).values() for one in some if one.name == figure]
    return max(found, key=lambda one: one.rate, default=None)
