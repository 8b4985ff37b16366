"""Every write of benchmarks that people ask for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils.translation import gettext as _

from accounts import team_rows
from accounts.models import Team
from accounts.services.rights import require
from accounts.states import Right
from benchmarks import selectors
from benchmarks.errors import BenchmarkEnded, InvalidBenchmark
from benchmarks.load.scenario import LoadScenario, ScenarioFaults, scenario_of
from benchmarks.models import Benchmark, BenchmarkCell, BenchmarkRun, BenchmarkScenario
from benchmarks.prior import prior_of
from benchmarks.search.staged import FINALISTS
from benchmarks.spec import MOST_RUNS, BenchmarkSpec, CellPlan, SpecFaults, iter_cells, spec_of
from benchmarks.states import BenchmarkState, RunState, Strategy
from clusters.errors import ClusterMissing, NoImageFits
from clusters.images import foresee_image
from clusters.models import Cluster
from clusters.selectors import cluster as cluster_named
from common import audit
from common.actor import Actor
from common.errors import Missing
from common.reconcile import kernel
from images.models import RuntimeImage
from images.selectors import usable_by
from models_registry.models import Version
from models_registry.states import VersionState

START_SECONDS = 60
"""For which a preview reckons with a deployment and its removal."""


@dataclass(frozen=True, slots=True)
class PlannedCell:
    plan: CellPlan
    version: Version
    image: RuntimeImage | None
    refusal: str
    """Why it cannot run, in words of the catalogue; empty: it can."""
    gpus: int


@dataclass(frozen=True, slots=True)
class BenchmarkPlan:
    """The outline of a benchmark, before anything is started."""

    cluster: Cluster
    spec: BenchmarkSpec
    scenario: LoadScenario
    cells: Sequence[PlannedCell]
    runs: int
    """At most, but for those that are repeated as they were invalid."""
    hours: float
    gpu_hours: float
    price: float | None
    """None: no GPU, or no price is set."""

    @property
    def runnable(self) -> list[PlannedCell]:
        return [one for one in self.cells if not one.refusal]


def plan_benchmark(
    *, actor: Actor, team: Team, cluster: str, scenario: Mapping[str, Any], spec: Mapping[str, Any]
) -> BenchmarkPlan:
    """Raises NotAllowed, InvalidBenchmark with the names of the fields."""
    require(actor, Right.BENCHMARKS_WRITE, team)
    faults: dict[str, str] = {}
    load = read = None
    try:
        load = scenario_of(scenario)
    except ScenarioFaults as error:
        faults |= {f"scenario.{name}": said.translated(_) for name, said in error.fields.items()}
    try:
        read = spec_of(spec)
    except SpecFaults as error:
        faults |= error.fields
    found = None
    try:
        found = cluster_named(cluster)
        if found.team_id not in (None, team.pk):
            raise ClusterMissing(
                _("Team %(team)s has no cluster %(cluster)s.") % {"team": team, "cluster": cluster}
            )
    except Missing as error:
        faults["cluster"] = str(error)
    if load is None or read is None or found is None or faults:
        raise InvalidBenchmark(fields={name: [said] for name, said in faults.items()})
    versions = {label: _version(label, team, faults) for label in read.versions}
    images = {image.name: image for image in RuntimeImage.objects.filter(pk__in=usable_by(team).values("pk"))}
    if unknown := [name for name in read.space.images if name not in images]:
        missing = _("Image %(name)s is not available to team %(team)s.")
        faults["space.images"] = missing % {"team": team, "name": unknown[0]}
    if faults:
        raise InvalidBenchmark(fields={name: [said] for name, said in faults.items()})
    foreseen: dict[Any, str] = {}
    cells = [
        _planned(one, versions[one.version], images.get(one.image), found, team, read, foreseen)  # type: ignore[arg-type]
        for one in iter_cells(read)
    ]
    running = [one for one in cells if not one.refusal]
    most = len(running) * read.repeats
    if read.strategy == Strategy.STAGED:
        # At worst it looks at every configuration, with a part of the requests.
        most = min(most, len(running) + FINALISTS * read.repeats)
    runs = min(most, read.budget.runs or MOST_RUNS)
    seconds = load.least_seconds + START_SECONDS
    gpus = max((one.gpus for one in running), default=0)
    price = selectors.price_per_hour(found, gpus)
    gpu_hours = runs * seconds / 3600 * gpus
    return BenchmarkPlan(
        cluster=found,
        spec=read,
        scenario=load,
        cells=cells,
        runs=runs,
        hours=runs * seconds / 3600,
        gpu_hours=min(gpu_hours, read.budget.gpu_hours or gpu_hours),
        price=None if price is None else price * runs * seconds / 3600,
    )


def create_benchmark(
    *,
    actor: Actor,
    team: Team,
    name: str,
    cluster: str,
    scenario: Mapping[str, Any],
    spec: Mapping[str, Any],
    description: str = "",
) -> Benchmark:
    """Begin it. Raises NotAllowed, Conflict, InvalidBenchmark with the names of the fields."""
    plan = plan_benchmark(actor=actor, team=team, cluster=cluster, scenario=scenario, spec=spec)
    _refuse(plan, team)
    row = Benchmark(
        team=team, name=name, description=description, cluster=plan.cluster, spec=plan.spec.as_json()
    )
    with transaction.atomic():
        row.scenario = _scenario(actor, team, plan.scenario)
        row.created_at = row.state_since = kernel.clock()
        team_rows.create(row, actor=actor, right=Right.BENCHMARKS_WRITE)
        BenchmarkCell.objects.bulk_create(
            BenchmarkCell(
                benchmark=row,
                position=position,
                version=one.version,
                engine=one.plan.engine,
                image=one.image,
                machine=one.plan.machine,
                parameters=dict(one.plan.parameters),
                digest=one.plan.digest,
                refusal=one.refusal,
                prior=prior_of(one.plan, one.version, plan.cluster, plan.scenario, gpus=one.gpus),
            )
            for position, one in enumerate(plan.cells, 1)
        )
        kernel.wake(row)
    return row


def cancel_benchmark(row: Benchmark, *, actor: Actor, reason: str = "") -> Benchmark:
    """Stop what runs and remove all of it. Raises NotAllowed, BenchmarkEnded."""
    require(actor, Right.BENCHMARKS_WRITE, row.team)
    now = kernel.clock()
    with transaction.atomic():
        where = {"state": BenchmarkState.RUNNING}
        if not kernel.interrupt(
            row, to=BenchmarkState.CANCELLING, where=where, state_since=now, reason=reason
        ):
            raise BenchmarkEnded(_("%(name)s is not running any more.") % {"name": row.name})
        audit.record(actor, "benchmark.cancel", subject=row, reason=reason, team_id=row.team.pk)
        for run in selectors.open_runs(row):
            cancel_run(run)
    row.refresh_from_db()
    return row


def cancel_run(run: BenchmarkRun) -> None:
    """Cancel a run in the caller's transaction."""
    now = kernel.clock()
    if run.state == RunState.WAITING:
        where = {"state": RunState.WAITING}
        if kernel.interrupt(run, to=RunState.CANCELLED, where=where, state_since=now, ended_at=now):
            return
        run.refresh_from_db()
    if run.state in (RunState.DEPLOYING, RunState.MEASURING, RunState.COLLECTING):
        kernel.interrupt(run, to=RunState.REMOVING, state_since=now, outcome=RunState.CANCELLED)


def _scenario(actor: Actor, team: Team, load: LoadScenario) -> BenchmarkScenario:
    """The team's scenario of this content, made when there is none."""
    digest = load.digest
    found = BenchmarkScenario.objects.filter(team=team, digest=digest).first()
    return found or BenchmarkScenario.objects.create(
        team=team, name=digest[:12], content=load.as_json(), digest=digest, created_by=actor.name
    )


def _version(label: str, team: Team, faults: dict[str, str]) -> Version | None:
    model, _colon, name = label.partition(":")
    rows = Version.objects.filter(model__team=team, model__name=model, state=VersionState.READY)
    found = rows.select_related("model").filter(name=name).first()
    if found is None:
        faults["versions"] = _("Team %(team)s has no ready version %(label)s.") % {
            "team": team,
            "label": label,
        }
    return found


def _planned(
    plan: CellPlan,
    version: Version,
    image: RuntimeImage | None,
    cluster: Cluster,
    team: Team,
    spec: BenchmarkSpec,
    foreseen: dict[Any, str],
) -> PlannedCell:
    gpus = selectors.gpus_per_worker(plan.parameters, cluster, spec.device)
    key = (plan.version, plan.engine, plan.image, gpus)
    if key not in foreseen:
        foreseen[key] = ""
        try:
            foresee_image(
                cluster=cluster,
                team=team,
                version=version,
                engine=plan.engine,
                device=spec.device,
                resources={"gpus_per_worker": gpus} if gpus > 1 else {},
                named=image,
            )
        except NoImageFits as error:
            foreseen[key] = str(error)
    return PlannedCell(plan, version, image, foreseen[key], gpus)


def _refuse(plan: BenchmarkPlan, team: Team) -> None:
    if not plan.runnable:
        raise InvalidBenchmark(fields={"space": [plan.cells[0].refusal]})
    if selectors.is_out_of_service(plan.cluster):
        closed = _("No machine of cluster %(cluster)s takes workers: all are cordoned.")
        raise InvalidBenchmark(fields={"cluster": [closed % {"cluster": plan.cluster.name}]})
    quota: float = settings.SLIPWAY_BENCHMARK_GPU_HOURS
    used = selectors.gpu_hours_used(team) if quota and plan.gpu_hours else 0.0
    if quota and used + plan.gpu_hours > quota:
        spent = _(
            "Team %(team)s has used %(used)s of %(quota)s GPU hours in 30 days; this takes up to %(more)s."
        )
        told = {"team": team, "quota": f"{quota:g}", "used": f"{used:.1f}", "more": f"{plan.gpu_hours:.1f}"}
        raise InvalidBenchmark(fields={"budget.gpu_hours": [spent % told]})
    is_grid = plan.spec.strategy == Strategy.GRID
    if is_grid and len(plan.runnable) * plan.spec.repeats > MOST_RUNS and plan.spec.budget.runs is None:
        raise InvalidBenchmark(
            fields={"budget.runs": [_("More than %(most)s runs: give a budget.") % {"most": MOST_RUNS}]}
        )
