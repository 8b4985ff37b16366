"""Named reads of benchmarks."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import QuerySet
from django.utils.translation import gettext as _

from accounts.models import Team
from benchmarks import statistics
from benchmarks.conclusion import objective_value
from benchmarks.figures import Summary
from benchmarks.models import Benchmark, BenchmarkCell, BenchmarkFigure, BenchmarkRun
from benchmarks.rounds import PastRun
from benchmarks.spec import BenchmarkSpec, spec_of
from benchmarks.states import RUN_ENDED, BenchmarkState, RunState
from benchmarks.statistics import MeanEstimate, RatioEstimate
from clusters import selectors as fleet
from clusters.backends.kinds import abilities_of
from clusters.images import gpus_of
from clusters.models import Cluster, Deployment, Node
from clusters.report_tokens import workers_report
from clusters.states import GONE, DeploymentState, MachineGroup, NodeState
from common import clock
from gpu_health.incident_statistics import prices
from gpu_health.selectors import open_incidents
from gpu_health.statistics.cases import price_of

OP_KEY = "benchmark-run:"
"""Begins the `op_key` of every deployment that a run makes."""


def open_runs(benchmark: Benchmark) -> QuerySet[BenchmarkRun]:
    return BenchmarkRun.objects.filter(benchmark=benchmark).exclude(state__in=RUN_ENDED)


def valid_windows(run: BenchmarkRun) -> list[Summary]:
    broken = {one["rate"] for one in run.violations}
    return [one for one in map(Summary.from_json, run.summaries) if one.rate not in broken]


def value_of(run: BenchmarkRun, spec: BenchmarkSpec) -> float | None:
    """Return the objective's value; None unless the run is valid and has one."""
    if run.state != RunState.VALID:
        return None
    targets = run.benchmark.scenario.load.targets
    return objective_value(spec.objective, targets, valid_windows(run))


def past_runs(benchmark: Benchmark) -> list[PastRun]:
    spec = spec_of(benchmark.spec)
    rows = BenchmarkRun.objects.filter(benchmark=benchmark).order_by("position")
    return [
        PastRun(run.cell_id, run.state, value_of(run, spec), run.fraction)
        for run in rows.select_related("benchmark__scenario")
    ]


def values_of(past: Iterable[PastRun]) -> dict[int, list[float]]:
    """Return the values of whole valid runs, by cell."""
    found: dict[int, list[float]] = defaultdict(list)
    for one in past:
        if one.value is not None and one.fraction == 1.0:
            found[one.cell].append(one.value)
    return found


def gpus_per_worker(cell_parameters: Mapping[str, Any], cluster: Cluster, device: str) -> int:
    """GPUs that a worker of the cell takes; 0 where it runs on the CPU."""
    if device == "cpu" or not gpus_of(cluster):
        return 0
    tensor_parallel = cell_parameters.get("tensor_parallel_size", 1)
    return int(cell_parameters.get("gpus_per_worker", tensor_parallel))


def serving_alone(service: str, team: Team) -> Deployment | None:
    """Return the deployment of a service that runs one version; None: it runs none, or a release runs."""
    rows = list(fleet.deployments_of(service).filter(team=team).exclude(state__in=GONE)[:2])
    return rows[0] if len(rows) == 1 and rows[0].state == DeploymentState.READY else None


def machines_refusal(cluster: Cluster, labels: Mapping[str, str]) -> str:
    """Return why nothing is measured on the machines with these labels; empty: it is.

    One of them under an incident is enough: who measures there measures a fault, or disturbs a repair.
    """
    machines = Node.objects.filter(cluster=cluster, group=MachineGroup.ONLINE).exclude(state=NodeState.GONE)
    rows = machines.values_list("pk", "is_cordoned", "labels")
    found = {pk: cordoned for pk, cordoned, has in rows if labels.items() <= has.items()}
    if labels and not found:
        return _("Cluster %(cluster)s has no machine with these labels.") % {"cluster": cluster.name}
    if found and all(found.values()):
        return _("All machines of cluster %(cluster)s for it are cordoned.") % {"cluster": cluster.name}
    hurt = open_incidents(list(found)).first()
    if hurt is not None:
        return _("Machine %(machine)s of cluster %(cluster)s is under an incident.") % {
            "machine": hurt.node.name,
            "cluster": cluster.name,
        }
    return ""


MOST_LOAD_MACHINES = 50


def machines_for_load(cluster: Cluster, *, besides: str = "") -> list[str]:
    """Return machines without a GPU that take new work and have no worker of the deployment `besides`."""
    rows = Node.objects.filter(cluster=cluster, state=NodeState.READY, is_cordoned=False, capacity={})
    rows = rows.filter(gpus=None).exclude(workers__deployment__name=besides)
    return list(rows.order_by("name").values_list("name", flat=True)[:MOST_LOAD_MACHINES])


def machines_with_gpus(cluster: Cluster) -> list[str]:
    """Return machines with a GPU that take new work."""
    rows = Node.objects.filter(cluster=cluster, state=NodeState.READY, is_cordoned=False)
    rows = rows.exclude(gpus=None).order_by("name").distinct()
    return list(rows.values_list("name", flat=True)[:MOST_LOAD_MACHINES])


def load_refusal(cluster: Cluster) -> str:
    """Return why no load generator can run there; empty: one can."""
    if not abilities_of(cluster.kind).has_pods:
        return ""
    if not cluster.settings.get("jobs_image") or not workers_report(cluster.kind, cluster.settings):
        return _(
            "Load generators run as Jobs of the cluster: name their image (jobs_image) and the address of "
            "Slipway (store_url) in its settings."
        )
    if not machines_for_load(cluster):
        return _("The cluster has no machine without a GPU that takes work: the load generator needs one.")
    return ""


def price_per_hour(cluster: Cluster, gpus: int) -> float | None:
    """Return the price of so many GPUs there; None when it has none, or no price is set."""
    kinds = gpus_of(cluster) if gpus else None
    if not kinds:
        return None
    price = price_of(prices().entries, cluster.name, kinds[0].name)
    return None if price is None else float(price) * gpus


GpuHours = Callable[[Team, datetime], float]
_also_counted: list[GpuHours] = []


def register_gpu_hours(hours: GpuHours) -> None:
    """Count the GPU hours of other work since a time towards the quota. Registering twice changes nothing."""
    if hours not in _also_counted:
        _also_counted.append(hours)


def gpu_hours_used(team: Team, *, days: int = 30) -> float:
    """Return the GPU hours of the team's runs, and of other work that counts, that began in so many days."""
    since = clock.now() - timedelta(days=days)
    rows = BenchmarkRun.objects.filter(benchmark__team=team, began_at__gte=since)
    return gpu_hours_of(rows, clock.now()) + sum(hours(team, since) for hours in _also_counted)


def is_quota_spent(team: Team) -> bool:
    """Whether the team's benchmarks have used the GPU hours that they may."""
    quota: float = settings.SLIPWAY_BENCHMARK_GPU_HOURS
    return bool(quota) and gpu_hours_used(team) >= quota


def gpu_hours_of(runs: QuerySet[BenchmarkRun], now: datetime) -> float:
    """Return the GPU hours of the runs that have begun, until their end or until now."""
    told = runs.filter(began_at__isnull=False).values_list("began_at", "ended_at", "environment")
    return sum(
        ((ended or now) - began).total_seconds() / 3600 * float(environment.get("gpus", 0))
        for began, ended, environment in told
        if began
    )


@dataclass(frozen=True, slots=True)
class CellEstimate:
    """A figure of a configuration at a rate, over its valid repeats."""

    rate: float
    name: str
    unit: str
    value: MeanEstimate


def estimates(benchmark: Benchmark) -> dict[int, list[CellEstimate]]:
    """Return the figures of each configuration by its key; those without a valid repeat are missing."""
    found: dict[int, dict[tuple[float, str, str], list[float]]] = defaultdict(lambda: defaultdict(list))
    rows = _valid_figures(BenchmarkRun.objects.filter(benchmark=benchmark))
    for cell, rate, name, unit, value in rows.values_list("run__cell", "rate", "name", "unit", "value"):
        found[cell][rate, name, unit].append(value)
    return {cell: _estimated(by_figure) for cell, by_figure in found.items()}


COMPARED = re.compile(r"(ttft|tpot|e2e)_p\d+|goodput|output_rate|price_per_million_tokens")
"""Figures by which a configuration is better; each other one would blunt Holm's adjustment of these."""


def sampled_runs(benchmark: Benchmark) -> list[BenchmarkRun]:
    """Return the runs that have system figures, without these."""
    rows = BenchmarkRun.objects.filter(benchmark=benchmark, system__isnull=False)
    return list(rows.select_related("cell__version__model", "cell__image").order_by("position"))


def compared(ours: BenchmarkCell, theirs: BenchmarkCell) -> list[tuple[float, str, RatioEstimate]]:
    """Return the ratio of each figure that both have at a rate, judged as one family."""
    one, other = (_by_rate_and_name(cell) for cell in (ours, theirs))
    pairs = {key: (one[key], other[key]) for key in sorted(one.keys() & other.keys())}
    return [(rate, name, ratio) for (rate, name), ratio in statistics.compare_family(pairs).items()]


@dataclass(frozen=True, slots=True)
class VersionsMeasured:
    """Two versions under the same load in the same configuration."""

    ours: BenchmarkCell
    theirs: BenchmarkCell
    rate: float
    """The highest one that both were measured at."""
    figures: Mapping[str, tuple[CellEstimate, CellEstimate, RatioEstimate]]
    """By name: ours, theirs, and ours over theirs."""


def versions_measured(*, ours: int, theirs: int, team: int) -> VersionsMeasured | None:
    """Compare two versions by the newest finished benchmarks of the team that measured both alike.

    Alike: the same scenario, cluster, engine, image, machines and parameters. None: there are none.
    """
    rows = BenchmarkCell.objects.filter(
        version__in=[ours, theirs], benchmark__team=team, benchmark__state=BenchmarkState.FINISHED
    )
    rows = rows.select_related("benchmark__scenario").order_by("-benchmark", "position")
    sides: dict[int, list[BenchmarkCell]] = defaultdict(list)
    for row in rows:
        sides[row.version_id].append(row)
    for one in sides[ours]:
        for other in sides[theirs]:
            if _circumstances(one) == _circumstances(other) and (found := _measured_alike(one, other)):
                return found
    return None


def _circumstances(cell: BenchmarkCell) -> tuple[Any, ...]:
    of = cell.benchmark
    spec = spec_of(of.spec)
    asked = of.scenario.digest, of.cluster_id, spec.device, spec.load_engine, of.spec.get("target")
    return *asked, cell.engine, cell.image_id, spec.space.machines.get(cell.machine), cell.parameters


def _measured_alike(one: BenchmarkCell, other: BenchmarkCell) -> VersionsMeasured | None:
    ratios = compared(one, other)
    if not ratios:
        return None
    rate = max(rate for rate, _name, _ratio in ratios)
    ours, theirs = (
        {found.name: found for found in estimates(cell.benchmark)[cell.pk] if found.rate == rate}
        for cell in (one, other)
    )
    figures = {name: (ours[name], theirs[name], ratio) for at, name, ratio in ratios if at == rate}
    return VersionsMeasured(one, other, rate, figures)


def _estimated(values: Mapping[tuple[float, str, str], Sequence[float]]) -> list[CellEstimate]:
    return [
        CellEstimate(rate, name, unit, estimate)
        for (rate, name, unit), some in sorted(values.items())
        if (estimate := statistics.estimate(some)) is not None
    ]


def _by_rate_and_name(cell: BenchmarkCell) -> dict[tuple[float, str], list[float]]:
    found: dict[tuple[float, str], list[float]] = defaultdict(list)
    rows = _valid_figures(BenchmarkRun.objects.filter(cell=cell))
    for rate, name, value in rows.values_list("rate", "name", "value"):
        if COMPARED.fullmatch(name):
            found[rate, name].append(value)
    return found


def _valid_figures(runs: QuerySet[BenchmarkRun]) -> QuerySet[BenchmarkFigure]:
    whole = runs.filter(state=RunState.VALID, fraction=1.0)
    return BenchmarkFigure.objects.filter(run__in=whole, is_valid=True).order_by("run", "pk")
