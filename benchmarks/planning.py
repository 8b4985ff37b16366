"""The outline of a benchmark before anything starts: its cells, and what running them takes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.utils.translation import gettext as _

from accounts.models import Team
from accounts.services.rights import require
from accounts.states import Right
from benchmarks import selectors
from benchmarks.errors import InvalidBenchmark
from benchmarks.estimate_orders import estimates_refusal
from benchmarks.load.scenario import LoadScenario, ScenarioFaults, scenario_of
from benchmarks.search import bayesian
from benchmarks.search.staged import FINALISTS
from benchmarks.service_target import ServiceTarget, capped
from benchmarks.spec import MOST_RUNS, BenchmarkSpec, CellPlan, SpecFaults, iter_cells, spec_of
from benchmarks.states import LoadEngineKind, PriorKind, Strategy
from clusters.errors import ClusterMissing, NoImageFits
from clusters.images import foresee_image
from clusters.models import Cluster
from clusters.selectors import cluster as cluster_named
from common.actor import Actor
from gateway import selectors as gateway
from images.models import RuntimeImage
from images.selectors import usable_by
from models_registry.models import Version
from models_registry.states import VersionState

START_SECONDS = 60
"""Estimated time of a deployment and its removal."""


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
    """Maximum, without repeats of invalid runs."""
    hours: float
    gpu_hours: float
    price: float | None
    """None: no GPU, or no price is set."""

    @property
    def seconds(self) -> float:
        """Return the time that the runs take, about."""
        return self.hours * 3600

    @property
    def runnable(self) -> list[PlannedCell]:
        return [one for one in self.cells if not one.refusal]


def plan_benchmark(
    *, actor: Actor, team: Team, cluster: str, scenario: Mapping[str, Any], spec: Mapping[str, Any]
) -> BenchmarkPlan:
    """Raises NotAllowed, InvalidBenchmark with the names of the fields."""
    require(actor, Right.BENCHMARKS_WRITE, team)
    faults: dict[str, str] = {}
    load, read = _scenario(scenario, faults), _spec(spec, faults)
    place = _cluster(cluster, team, faults)
    if read and load and read.load_engine == LoadEngineKind.AIPERF and load.is_closed_loop and load.seconds:
        faults["scenario.seconds"] = _(
            "With AIPerf, fixed concurrency needs requests per window, not seconds."
        )
    if read and read.strategy == Strategy.OPTUNA and not bayesian.is_installed():
        faults["strategy"] = _("optuna is not installed on the server: pip install 'slipway[optuna]'.")
    if read and place and read.prior == PriorKind.AICONFIGURATOR and (why := estimates_refusal(read, place)):
        faults["prior"] = why
    if load is None or read is None or place is None:
        raise _invalid(faults)
    if read.target:
        return _of_service(actor, team, place, load, read, read.target)
    versions = {label: found for label in read.versions if (found := _version(label, team, faults))}
    images = {image.name: image for image in usable_by(team)}
    if unknown := [name for name in read.space.images if name not in images]:
        missing = _("Image %(name)s is not available to team %(team)s.")
        faults["space.images"] = missing % {"team": team, "name": unknown[0]}
    if faults:
        raise _invalid(faults)
    foreseen: dict[Any, str] = {}
    cells = [
        _planned(one, versions[one.version], images.get(one.image), place, team, read, foreseen)
        for one in iter_cells(read)
    ]
    return _outline(place, read, load, cells)


def _of_service(
    actor: Actor, team: Team, cluster: Cluster, load: LoadScenario, spec: BenchmarkSpec, target: ServiceTarget
) -> BenchmarkPlan:
    """Raises NotAllowed, InvalidBenchmark."""
    require(actor, Right.RELEASES_OPERATE, team, service=target.service)
    faults: dict[str, str] = {}
    capped(load, settings.SLIPWAY_BENCHMARK_SERVICE_RATE, faults)
    found = selectors.serving_alone(target.service, team)
    told = {"team": team, "service": target.service, "cluster": cluster.name}
    if found is None:
        faults["target.service"] = (
            _("Team %(team)s has no service %(service)s that is ready and runs one version alone.") % told
        )
    elif found.cluster_id != cluster.pk:
        faults["cluster"] = _("Service %(service)s does not run on cluster %(cluster)s.") % told
    elif not gateway.routes().filter(service=target.service).exists():
        faults["target.service"] = (
            _("Service %(service)s has no route, so that the latencies of its users are not known.") % told
        )
    if faults or found is None:
        raise _invalid(faults)
    version = Version.objects.select_related("model").get(pk=found.version_id)
    plan = CellPlan(found.version_label, found.engine)
    return _outline(cluster, spec, load, [PlannedCell(plan, version, found.image, "", 0)])


def _outline(
    cluster: Cluster, spec: BenchmarkSpec, load: LoadScenario, cells: Sequence[PlannedCell]
) -> BenchmarkPlan:
    running = [one for one in cells if not one.refusal]
    most = len(running) * spec.repeats
    if spec.strategy != Strategy.GRID:
        # At worst it looks at every configuration, with a part of the requests.
        most = min(most, len(running) + FINALISTS * spec.repeats)
    runs = min(most, spec.budget.runs or MOST_RUNS)
    hours = runs * (load.least_seconds + START_SECONDS) / 3600
    gpus = max((one.gpus for one in running), default=0)
    price = selectors.price_per_hour(cluster, gpus)
    return BenchmarkPlan(
        cluster=cluster,
        spec=spec,
        scenario=load,
        cells=cells,
        runs=runs,
        hours=hours,
        gpu_hours=min(hours * gpus, spec.budget.gpu_hours or hours * gpus),
        price=None if price is None else price * hours,
    )


def _scenario(given: Mapping[str, Any], faults: dict[str, str]) -> LoadScenario | None:
    try:
        return scenario_of(given)
    except ScenarioFaults as error:
        faults |= {f"scenario.{name}": said.translated(_) for name, said in error.fields.items()}
        return None


def _spec(given: Mapping[str, Any], faults: dict[str, str]) -> BenchmarkSpec | None:
    try:
        return spec_of(given)
    except SpecFaults as error:
        faults |= error.fields
        return None


def _cluster(name: str, team: Team, faults: dict[str, str]) -> Cluster | None:
    try:
        found = cluster_named(name)
    except ClusterMissing as error:
        faults["cluster"] = str(error)
        return None
    if found.team_id not in (None, team.pk):
        faults["cluster"] = _("Team %(team)s has no cluster %(cluster)s.") % {"team": team, "cluster": name}
        return None
    return found


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


def _invalid(faults: Mapping[str, str]) -> InvalidBenchmark:
    return InvalidBenchmark(fields={name: [said] for name, said in faults.items()})
