"""The prior of a configuration: the roofline of its version's facts on the GPUs of its machines, corrected by
what was measured of like models on the same cluster."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from accounts.models import Team
from benchmarks import selectors
from benchmarks.load.scenario import LoadScenario
from benchmarks.models import Benchmark, BenchmarkCell
from benchmarks.search.likeness import MeasuredCell, are_alike, corrected
from benchmarks.search.roofline import CPU, ServedLoad, ServedModel, peak_of, requests_per_second
from benchmarks.spec import DEFAULT_SLOTS, spec_of
from benchmarks.states import BenchmarkState, ObjectiveKind
from clusters.images import gpus_of
from clusters.models import Cluster
from models_registry.models import Version

BYTES_OF_PARAMETER = 2
MOST_BENCHMARKS = 50
"""So many of the team's last ones are looked at for like models."""


@dataclass(frozen=True, slots=True)
class PriorKnowledge:
    """The knowledge of a version's configurations before any of them is measured."""

    version: Version
    cluster: Cluster
    scenario: LoadScenario
    measured: Sequence[MeasuredCell]

    def of(self, engine: str, machine: str, parameters: Mapping[str, Any], *, gpus: int) -> float | None:
        """Return requests per second within the targets; None where the version's files do not tell what it
        weighs."""
        found = _roofline(self.version, self.cluster, self.scenario, machine, parameters, gpus)
        return None if found is None else corrected(found, _named(engine, machine, parameters), self.measured)


def prior_knowledge(version: Version, team: Team, cluster: Cluster, scenario: LoadScenario) -> PriorKnowledge:
    return PriorKnowledge(version, cluster, scenario, _measured_like(version, team, cluster))


def _measured_like(version: Version, team: Team, cluster: Cluster) -> list[MeasuredCell]:
    """Return the goodput of configurations of like models, as the team's benchmarks there concluded it."""
    weights = _weights(version)
    ended = Benchmark.objects.filter(team=team, cluster=cluster, state=BenchmarkState.FINISHED)
    found = []
    for row in ended.select_related("scenario").order_by("-ended_at")[:MOST_BENCHMARKS] if weights else ():
        spec = spec_of(row.spec)
        values = {one["cell"]: one["value"]["value"] for one in row.conclusion.get("cells", ())}
        if spec.objective.kind != ObjectiveKind.GOODPUT:
            continue
        cells = BenchmarkCell.objects.filter(pk__in=values).select_related("version__model")
        for cell in cells:
            theirs = _weights(cell.version)
            if not theirs or not are_alike(weights, theirs):
                continue
            gpus = selectors.gpus_per_worker(cell.parameters, cluster, spec.device)
            load = row.scenario.load
            roofline = _roofline(cell.version, cluster, load, cell.machine, cell.parameters, gpus)
            if roofline:
                named = _named(cell.engine, cell.machine, cell.parameters)
                found.append(MeasuredCell(named, values[cell.pk], roofline))
    return found


def _named(engine: str, machine: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {"engine": engine, "machine": machine, **parameters}


def _weights(version: Version) -> float:
    return float(((version.facts or {}).get("memory") or {}).get("weights_bytes") or 0)


def _roofline(
    version: Version,
    cluster: Cluster,
    scenario: LoadScenario,
    machine: str,
    parameters: Mapping[str, Any],
    gpus: int,
) -> float | None:
    weights = _weights(version)
    cache = ((version.facts or {}).get("memory") or {}).get("kv_cache_bytes_per_1k_tokens")
    if not weights or cache is None:
        return None
    targets = scenario.targets
    load = ServedLoad(
        scenario.input.mean,
        scenario.output.mean,
        None if targets.ttft_ms is None else targets.ttft_ms / 1000,
        None if targets.tpot_ms is None else targets.tpot_ms / 1000,
    )
    kinds = gpus_of(cluster) if gpus else None
    # Kinds of machines are named for their GPUs; else the cluster's first kind stands for all.
    peaks = map(peak_of, (machine, kinds[0].name if kinds else ""))
    peak = next((one for one in peaks if one is not CPU), CPU)
    slots = int(parameters.get("slots", parameters.get("max_num_seqs", DEFAULT_SLOTS)))
    model = ServedModel(weights, weights / BYTES_OF_PARAMETER, cache / 1000)
    rate = requests_per_second(model, load, peak, gpus=max(1, gpus), slots=slots)
    return rate * int(parameters.get("replicas", 1))
