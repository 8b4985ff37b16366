"""The course of a run: lease, deploy, measure, keep its records, remove everything."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db.models import QuerySet
from django.utils.translation import gettext as _

from accounts.states import Right
from benchmarks import deploying, load_tokens, record_store, selectors, service_guard
from benchmarks.gpu_conditions import gpu_conditions
from benchmarks.load.records import RECORDS_FILE
from benchmarks.load_orders import job_of
from benchmarks.load_results import read_result
from benchmarks.models import BenchmarkFigure, BenchmarkLease, BenchmarkRecords, BenchmarkRun, SystemSeries
from benchmarks.scraped_figures import with_scraped
from benchmarks.spec import spec_of
from benchmarks.states import RUN_ENDED, RUN_MOVES, RunState
from benchmarks.validity import BY_NAME, violations
from clusters import selectors as fleet
from clusters.backends.base import ClusterBackend
from clusters.backends.configured import backend_of
from clusters.backends.extras import ClusterJobPlace
from clusters.backends.node_operations import OperationUnsupported
from clusters.errors import ClusterRemoving, DeploymentGone, DeploymentMissing, FleetNameTaken, NoImageFits
from clusters.models import Cluster
from clusters.selectors import DeploymentStatus
from clusters.states import DeploymentState
from common.errors import Invalid
from common.jobs.runners.base import JobRunner
from common.jobs.spec import JobObservation, JobSpec, JobState
from common.jobs.steps import AwaitJob, CollectJob, JobReconciler, StartJob
from common.reconcile import Effect, Operation, Step, StepOutcome, move, wait
from gateway import selectors as gateway
from gateway.errors import GatewayUnreachable, UnknownRoute
from models_registry.errors import CodeNotAllowed, SignatureNotTrusted

LOOK_EVERY = timedelta(seconds=0.5)


class Lease(Step[BenchmarkRun]):
    """Wait for the run's turn, and for its machine, which it then has to itself."""

    name = "lease"
    effect = Effect.ABSOLUTE

    def act(self, row: BenchmarkRun, operation: Operation) -> None:
        key = deploying.lease_key(row)
        before = BenchmarkRun.objects.filter(benchmark=row.benchmark, position__lt=row.position)
        same = before.filter(cell__machine=row.cell.machine)
        if not same.exclude(state__in=RUN_ENDED).exists():
            BenchmarkLease.objects.get_or_create(key=key, defaults={"run": row, "since": operation.at})

    def observe(self, row: BenchmarkRun, operation: Operation) -> str:
        """Return what the run waits for; empty: it has the machine."""
        labels = spec_of(row.benchmark.spec).space.machines.get(row.cell.machine, {})
        if refusal := selectors.machines_refusal(row.benchmark.cluster, labels):
            return refusal
        held = BenchmarkLease.objects.filter(key=deploying.lease_key(row)).select_related("run__benchmark")
        lease = held.first()
        if lease is None:
            return _("its turn")
        return "" if lease.run_id == row.pk else str(lease.run or lease.holder)

    def settle(self, row: BenchmarkRun, seen: str, now: datetime) -> StepOutcome:
        if seen:
            return wait(LOOK_EVERY, save={"reason": _("Waiting for %(what)s.") % {"what": seen}})
        try:
            name = deploying.deployment_name(row)
        except DeploymentMissing as error:
            return move(RunState.DEPLOYING, save={"reason": str(error), "began_at": now, "state_since": now})
        save = {"reason": "", "began_at": now, "state_since": now, "deployment": name}
        return move(RunState.DEPLOYING, save=save)


class DeployRun(Step[BenchmarkRun]):
    """Start a fresh server and wait until it is ready."""

    name = "deploy"
    effect = Effect.CREATE

    def __init__(self) -> None:
        self._refusal = ""

    def act(self, row: BenchmarkRun, operation: Operation) -> None:
        try:
            deploying.ensure(row)
        except (
            ClusterRemoving,
            CodeNotAllowed,
            SignatureNotTrusted,
            NoImageFits,
            FleetNameTaken,
            DeploymentGone,
        ) as error:
            self._refusal = str(error)

    def observe(self, row: BenchmarkRun, operation: Operation) -> DeploymentStatus | str:
        if not row.deployment:
            return row.reason
        return self._refusal or fleet.deployment_status(row.deployment)

    def settle(self, row: BenchmarkRun, seen: DeploymentStatus | str, now: datetime) -> StepOutcome:
        if isinstance(seen, str):
            return leave(RunState.FAILED, now, seen)
        if seen.state == DeploymentState.FAILING or seen.is_stuck:
            broken = _("Its deployment does not start: %(reason)s")
            return leave(RunState.FAILED, now, broken % {"reason": seen.reason})
        if seen.ready >= seen.wanted and seen.wanted:
            environment = deploying.environment(row, row.deployment)
            return move(RunState.MEASURING, save={"environment": environment, "state_since": now})
        within = spec_of(row.benchmark.spec).ready_within_seconds
        if now - row.state_since > timedelta(seconds=within):
            late = _("Its deployment was not ready within %(seconds)s s. %(reason)s")
            return leave(RunState.FAILED, now, late % {"seconds": within, "reason": seen.reason})
        return wait(LOOK_EVERY, save={"reason": seen.reason})


class StartLoad(StartJob[BenchmarkRun]):
    """Start the load generator, a program of its own: a process here, or a Job in the cluster."""

    def __init__(self, runner: JobRunner, place: ClusterJobPlace | None = None) -> None:
        super().__init__(runner)
        self._place = place

    def spec(self, row: BenchmarkRun, op_key: str) -> JobSpec:
        return job_of(row, op_key, self._place)

    def act(self, row: BenchmarkRun, operation: Operation) -> None:
        try:
            super().act(row, operation)
        except OperationUnsupported as error:
            self._refusal = str(error)

    def refused(self, row: BenchmarkRun, why: str, now: datetime) -> StepOutcome:
        return leave(RunState.INVALID, now, why)


class AwaitLoad(AwaitJob[BenchmarkRun]):
    """Watch the generator. One that died is not followed by another: windows are never glued together."""

    def observe(self, row: BenchmarkRun, operation: Operation) -> JobObservation:
        self._restarts = deploying.restarts_since(row)
        self._guarded, self._broken = self._guard(row, operation.at)
        seen = super().observe(row, operation)
        # Read after the job was looked at: one that has ended has handed in all it will.
        handed_in = BenchmarkRun.objects.values_list("load_result", flat=True).get(pk=row.pk)
        seen = seen if handed_in is None else replace(seen, result=handed_in)
        if seen.result is None or seen.is_live:
            return seen
        system = with_scraped(row, seen.result.get("system"), operation.at)
        return replace(seen, result={**seen.result, "system": system})

    def _guard(self, row: BenchmarkRun, at: datetime) -> tuple[dict[str, Any], str]:
        """Return what the next look at a loaded service compares with, and why the load must stop."""
        target = deploying.target_of(row)
        if target is None:
            return {}, ""
        try:
            figures = gateway.worker_figures(target.service)
        except (UnknownRoute, GatewayUnreachable) as error:
            return {}, _("Stopped: how the service does is not known. %(why)s") % {"why": error}
        return service_guard.judged(target, row.environment.get("guard", {}), figures, at)

    def is_final(self, seen: JobObservation) -> bool:
        return True

    def underway(self, row: BenchmarkRun, seen: JobObservation) -> Mapping[str, Any]:
        # One in the cluster tells of itself over REST.
        told: dict[str, Any] = {} if seen.progress is None else {"progress": dict(seen.progress)}
        if self._guarded:
            told["environment"] = {**row.environment, "guard": self._guarded}
        return told

    def settle(self, row: BenchmarkRun, seen: JobObservation, now: datetime) -> StepOutcome:
        within = spec_of(row.benchmark.spec).ready_within_seconds
        if seen.state is JobState.WAITING and now - row.state_since > timedelta(seconds=within):
            late = _("The load generator did not start within %(seconds)s s. %(reason)s")
            return leave(RunState.INVALID, now, late % {"seconds": within, "reason": seen.why})
        if seen.is_live and self._broken:
            return leave(RunState.FAILED, now, self._broken)
        if seen.is_live:
            return super().settle(row, seen, now)
        if seen.result is not None:
            return self.succeeded(row, seen, now)
        said = f"{seen.why} {seen.last_words}".strip()
        return leave(RunState.INVALID, now, _("The load generator ended: %(said)s") % {"said": said})

    def succeeded(self, row: BenchmarkRun, seen: JobObservation, now: datetime) -> StepOutcome:
        try:
            result = read_result(seen.result or {})
        except Invalid as error:
            unread = _("The figures of the load generator cannot be read: %(error)s")
            return leave(RunState.INVALID, now, unread % {"error": error})
        if result.failed:
            return leave(RunState.FAILED, now, result.failed)
        scenario = row.benchmark.scenario.load
        system = result.system.model_dump() if result.system else None
        seen_of_run = {"restarts": self._restarts, **gpu_conditions(row, system)}
        summaries = [replace(one, **seen_of_run) for one in result.summaries]
        broken = [one for each in summaries for one in violations(each, scenario)]
        rates = {one.rate for one in broken}
        is_measuring = any(BY_NAME[one.rule].is_measuring for one in broken)
        is_valid = not is_measuring and any(one.rate not in rates for one in summaries)
        figures = [
            BenchmarkFigure(
                run=row, window=one.window, rate=one.rate, is_valid=one.rate not in rates, **asdict(figure)
            )
            for one in summaries
            for figure in one.figures.values()
        ]

        def write() -> None:
            BenchmarkFigure.objects.bulk_create(figures)
            if system:
                SystemSeries.objects.create(run=row, content=system)

        save = {
            "outcome": RunState.VALID if is_valid else RunState.INVALID,
            "summaries": [one.as_json() for one in summaries],
            "violations": [one.as_json() for one in broken],
            "environment": {
                **row.environment,
                "guard": {},
                "load_engine": result.engine,
                "windows": [one.head() for one in result.heads],
            },
            "progress": {},
            "reason": "",
            "state_since": now,
        }
        return move(RunState.COLLECTING, save=save, write=write)

    def failed(self, row: BenchmarkRun, seen: JobObservation, now: datetime) -> StepOutcome:
        return leave(RunState.INVALID, now, self.why_given_up(row, seen, _("The load generator")))


class KeepRecords(Step[BenchmarkRun]):
    """Bring the records of the requests to the model store."""

    name = "keep records"
    effect = Effect.ABSOLUTE

    def act(self, row: BenchmarkRun, operation: Operation) -> None:
        self._kept = record_store.keep(row.pk, Path(settings.SLIPWAY_JOBS_DIR) / row.job / RECORDS_FILE)

    def settle(self, row: BenchmarkRun, seen: Any, now: datetime) -> StepOutcome:
        kept = self._kept

        def write() -> None:
            if kept is not None:
                BenchmarkRecords.objects.get_or_create(
                    run=row, defaults={"sha256": kept.sha256, "size": kept.size, "created_at": now}
                )

        return move(RunState.REMOVING, save={"state_since": now}, write=write)


class RemoveRun(CollectJob[BenchmarkRun]):
    """End the generator, remove the workers, give the machine back."""

    name = "remove"

    def act(self, row: BenchmarkRun, operation: Operation) -> None:
        super().act(row, operation)
        load_tokens.revoke(row)
        self._is_gone = not self._lives and deploying.remove(row)
        record_store.forget(row.pk)

    def settle(self, row: BenchmarkRun, seen: Any, now: datetime) -> StepOutcome:
        if not self._is_gone:
            return wait(timedelta(seconds=0.5))

        def write() -> None:
            BenchmarkLease.objects.filter(run=row).delete()

        save = {"job": "", "job_host": "", "state_since": now, "ended_at": now, "progress": {}}
        return move(row.outcome or RunState.CANCELLED, save=save, write=write, after=None)


class RunReconciler(JobReconciler[BenchmarkRun]):
    model = BenchmarkRun
    moves = RUN_MOVES
    right = Right.BENCHMARKS_WRITE

    def __init__(
        self,
        runner: JobRunner | None = None,
        *,
        backend_of: Callable[[Cluster], ClusterBackend] = backend_of,
    ) -> None:
        super().__init__(runner)
        self._backend_of = backend_of

    def lane_of(self, row: BenchmarkRun) -> str:
        return row.benchmark.cluster.own_lane

    def rows(self) -> QuerySet[BenchmarkRun]:
        related = ("benchmark__scenario", "benchmark__cluster", "benchmark__team", "cell__version__model")
        return BenchmarkRun.objects.select_related(*related, "cell__image")

    def next_step(self, row: BenchmarkRun, now: datetime) -> Step[BenchmarkRun] | None:
        match row.state:
            case RunState.WAITING:
                return Lease()
            case RunState.DEPLOYING:
                return DeployRun()
            case RunState.MEASURING:
                place = deploying.job_place(row.benchmark.cluster, self._backend_of)
                runner = place.runner if place else self.runner
                return AwaitLoad(runner) if row.job else StartLoad(runner, place)
            case RunState.COLLECTING:
                return KeepRecords()
            case RunState.REMOVING:
                place = deploying.job_place(row.benchmark.cluster, self._backend_of)
                return RemoveRun(place.runner if place else self.runner)
        return None


def leave(outcome: RunState, now: datetime, reason: str) -> StepOutcome:
    """Remove everything, and end like this."""
    save = {"outcome": outcome, "reason": reason, "state_since": now}
    return move(RunState.REMOVING, save=save)
