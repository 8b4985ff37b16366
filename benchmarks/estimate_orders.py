"""What AIConfigurator is asked of a benchmark's configurations, and what becomes of its answers."""

import sys
from collections import defaultdict
from collections.abc import Mapping
from json import dumps, loads
from typing import Any

from django.conf import settings
from django.utils.translation import gettext as _

from benchmarks.load_orders import PACKAGE_INDEXES
from benchmarks.models import Benchmark, BenchmarkCell
from benchmarks.selectors import gpus_per_worker
from benchmarks.spec import DEFAULT_SLOTS, BenchmarkSpec, spec_of
from benchmarks.states import Strategy
from clusters.backends.embedded.backend import ENVIRONMENTS
from clusters.images import gpus_of
from clusters.models import Cluster
from common.jobs.spec import JobLimits, JobSpec
from common.jobs.steps import CannotStart, owner

ENGINES = {"vllm": "vllm", "sglang": "sglang", "tensorrt-llm": "trtllm"}
"""AIConfigurator's names of engines."""
SYSTEMS = {
    "A100": "a100_sxm",
    "A30": "a30",
    "B200": "b200_sxm",
    "B300": "b300_sxm",
    "GB200": "gb200",
    "GB300": "gb300",
    "H100": "h100_sxm",
    "H200": "h200_sxm",
    "L4": "l4",
    "L40S": "l40s",
    "RTX PRO 6000": "rtx_pro_6000_server",
}
"""And of GPUs, by a part of their name, the longest that occurs."""
WALL_SECONDS = 2 * 3600.0
"""Making its environment takes an hour at most, estimating a quarter of one."""
_SIZES = {
    "gpus": ("tensor_parallel_size",),
    "stages": ("pipeline_parallel_size",),
    "slots": ("slots", "max_num_seqs", "max_running_requests", "max_batch_size"),
}


def system_of(gpu: str) -> str:
    """Return AIConfigurator's name of a GPU; empty: it knows none."""
    known = sorted((name for name in SYSTEMS if name.lower() in gpu.lower()), key=len)
    system = SYSTEMS[known[-1]] if known else ""
    return system.replace("_sxm", "_pcie") if "pcie" in gpu.lower() else system


def system_in(cluster: Cluster, machine: str) -> str:
    """Return that of a kind of machines, which is named for its GPUs, or of the cluster's first kind."""
    return system_of(machine) or next(
        (found for one in gpus_of(cluster) or () if (found := system_of(one.name))), ""
    )


def estimates_refusal(spec: BenchmarkSpec, cluster: Cluster) -> str:
    """Return why AIConfigurator is of no use for an order; empty: it is."""
    if spec.strategy != Strategy.STAGED:
        return _("Only a staged search goes by a prior: choose it, or leave this out.")
    if not set(spec.space.engines) & ENGINES.keys():
        return _("AIConfigurator knows these engines: %(names)s.") % {"names": ", ".join(ENGINES)}
    kinds = list(spec.space.machines) or [""]
    if spec.device == "cpu" or not any(system_in(cluster, machine) for machine in kinds):
        return _("AIConfigurator knows none of the GPUs of cluster %(cluster)s.") % {"cluster": cluster.name}
    return ""


def orders_of(row: Benchmark) -> dict[str, list[BenchmarkCell]]:
    """Return the cells that are asked for, by an order as JSON that all of them share: what the roofline
    likes best comes first. The time that all have is limited."""
    spec, load = spec_of(row.spec), row.scenario.load
    found: dict[str, list[BenchmarkCell]] = defaultdict(list)
    cells = row.cells.filter(refusal="").select_related("version")
    for cell in sorted(cells, key=lambda one: -(one.prior or 0.0)):
        system = system_in(row.cluster, cell.machine)
        gpus = gpus_per_worker(cell.parameters, row.cluster, spec.device)
        if cell.engine not in ENGINES or not system or not gpus:
            continue
        stages = _size("stages", cell.parameters, 1)
        cached = str(cell.parameters.get("kv_cache_dtype", ""))
        order = {
            "model": str(cell.version_id),
            "system": system,
            "engine": ENGINES[cell.engine],
            "kv": next((kind for kind in ("fp8", "int8") if cached.startswith(kind)), None),
            "gpus": _size("gpus", cell.parameters, max(1, gpus // stages)),
            "stages": stages,
            "expert_parallel": bool(cell.parameters.get("enable_expert_parallel")),
            "slots": _size("slots", cell.parameters, DEFAULT_SLOTS),
            "input": max(1, round(load.input.mean)),
            "output": max(2, round(load.output.mean)),
            "ttft_ms": load.targets.ttft_ms,
            "tpot_ms": load.targets.tpot_ms,
        }
        found[dumps(order)].append(cell)
    return found


def _size(kind: str, parameters: Mapping[str, Any], default: int) -> int:
    return int(next((parameters[name] for name in _SIZES[kind] if name in parameters), default))


def job_of(row: Benchmark, op_key: str) -> JobSpec:
    """Raises CannotStart when there is nothing that it could be asked."""
    asked = orders_of(row)
    if not asked:
        raise CannotStart(_("AIConfigurator knows none of the configurations."))
    versions = {cell.version for cells in asked.values() for cell in cells}
    order = {
        "environments": str(settings.SLIPWAY_RUN_DIR.parent / ENVIRONMENTS),
        "models": {str(one.pk): (one.facts or {}).get("config", {}) for one in versions},
        "orders": [{"key": key, **loads(key)} for key in asked],
    }
    return JobSpec(
        op_key=op_key,
        owner=owner(row),
        argv=(sys.executable, "-m", "benchmarks.estimates"),
        environment=PACKAGE_INDEXES,
        stdin=dumps(order).encode(),
        limits=JobLimits(wall_seconds=WALL_SECONDS, nice=10),
    )


def estimated(row: Benchmark, result: Mapping[str, Any]) -> list[BenchmarkCell]:
    """Return the cells that the job's answers are about, with their new prior."""
    rates = result.get("rates") or {}
    found = []
    for key, cells in orders_of(row).items():
        for cell in cells if key in rates else ():
            cell.prior = rates[key] * int(cell.parameters.get("replicas", 1))
            found.append(cell)
    return found
