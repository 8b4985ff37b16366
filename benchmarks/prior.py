"""The prior of a configuration: the roofline of its version's facts on the GPUs of its machines."""

from benchmarks.load.scenario import LoadScenario
from benchmarks.search.roofline import CPU, ServedLoad, ServedModel, peak_of, requests_per_second
from benchmarks.spec import DEFAULT_SLOTS, CellPlan
from clusters.images import gpus_of
from clusters.models import Cluster
from models_registry.models import Version

BYTES_OF_PARAMETER = 2


def prior_of(
    plan: CellPlan, version: Version, cluster: Cluster, scenario: LoadScenario, *, gpus: int
) -> float | None:
    """Requests per second within the targets; None where the version's files do not tell what it weighs."""
    memory = (version.facts or {}).get("memory") or {}
    weights, cache = memory.get("weights_bytes"), memory.get("kv_cache_bytes_per_1k_tokens")
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
    peaks = map(peak_of, (plan.machine, kinds[0].name if kinds else ""))
    peak = next((one for one in peaks if one is not CPU), CPU)
    slots = int(plan.parameters.get("slots", plan.parameters.get("max_num_seqs", DEFAULT_SLOTS)))
    model = ServedModel(weights, weights / BYTES_OF_PARAMETER, cache / 1000)
    rate = requests_per_second(model, load, peak, gpus=max(1, gpus), slots=slots)
    return rate * int(plan.parameters.get("replicas", 1))
