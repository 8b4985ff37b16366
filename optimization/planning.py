"""The outline of a run before anything starts: what it needs, and what stands in its way."""

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.utils.translation import gettext as _

from accounts.models import Team
from accounts.services.rights import require
from accounts.states import Right
from benchmarks.errors import InvalidBenchmark
from benchmarks.planning import BenchmarkPlan, plan_benchmark
from benchmarks.selectors import gpu_hours_used, load_refusal, machines_with_gpus, price_per_hour
from clusters.backends.kinds import abilities_of
from clusters.images import gpus_of
from clusters.models import Cluster
from clusters.selectors import deployments_of
from common import clock, disk
from common.actor import Actor
from common.errors import Unavailable
from gateway.load_hours import LOAD_KEPT
from gateway.selectors import service_load
from model_store.errors import BlobMissing
from models_registry.errors import CodeNotAllowed, NoCard
from models_registry.exemptions import check_code
from models_registry.facts.readme import written_of
from models_registry.models import Version, VersionFile
from models_registry.states import VersionState
from optimization.errors import InvalidOptimization
from optimization.family_images import image_refusal
from optimization.inputs import NoSuchItemFile, item_file
from optimization.limits import GB, RunLimits, free_memory_bytes, limits_of
from optimization.recipes import OptimizationRecipe, recipes
from optimization.scorer_files import is_scorer
from optimization.service_load import LEAST_REQUESTS, scenario_of
from optimization.states import RunPlace
from optimization.task_files import is_task_file

ACTOR = Actor.system("optimization")
"""Of its steps; the right to optimise covers the benchmark that belongs to it."""
DEFAULT_SCENARIO: Mapping[str, Any] = {
    "arrivals": "concurrency", "rates": [4], "requests": 40, "warm_up_requests": 4, "input": 24, "output": 16
}  # fmt: skip
DEFAULT_REPEATS = 5
NO_DERIVATIVES = re.compile(r"\bnd\b|no-?deriv")
"""In names of licences, such as cc-by-nc-nd-4.0."""
BATCHING, CONTINUOUS, STATIC = "batching", "continuous", "static"
"""A setting of the transformers engine, and its values."""
PIPELINE_INDEX = "model_index.json"
"""Of a pipeline in diffusers' layout."""
MOST_MARGIN = 50.0
MOST_GAIN = 100.0
MOST_GPUS = 8


@dataclass(frozen=True, slots=True)
class RunPlan:
    parent: Version
    recipe: OptimizationRecipe
    parameters: Mapping[str, Any]
    calibration: tuple[Version, Mapping[str, Any]] | None
    test: tuple[Version, Mapping[str, Any]]
    limits: RunLimits
    benchmark_order: Mapping[str, Any]
    benchmark: BenchmarkPlan | None
    """Of the parent alone: the child takes as long again. None: the accuracy check takes the times."""
    warnings: Sequence[str] = ()
    place: RunPlace = RunPlace.LOCAL
    gpus: int = 0

    @property
    def hours(self) -> float:
        """Return the time that recipe and benchmark take, about."""
        return self.limits.seconds / 3600 + (2 * self.benchmark.hours if self.benchmark else 0.0)

    @property
    def cost(self) -> float | None:
        """Return the price of its GPUs over that time; None: none is set, or it takes no GPU."""
        cluster = Cluster.objects.filter(name=self.benchmark_order["cluster"]).first() if self.gpus else None
        job = price_per_hour(cluster, self.gpus) if cluster else None
        price = self.benchmark.price if self.benchmark else None
        if job is None and price is None:
            return None
        return 2 * (price or 0.0) + (job or 0.0) * self.limits.seconds / 3600


def plan_run(
    *,
    actor: Actor,
    team: Team,
    parent: str,
    recipe: str,
    cluster: str,
    test: str,
    calibration: str = "",
    parameters: Mapping[str, Any] | None = None,
    margin: float = 1.0,
    gain: float = 1.0,
    engine: str = "transformers",
    scenario: Mapping[str, Any] | None = None,
    load_of: str = "",
    compare_batching: bool = False,
    repeats: int = DEFAULT_REPEATS,
    place: str = RunPlace.LOCAL,
    gpus: int = 0,
) -> RunPlan:
    """Raises NotAllowed, InvalidOptimization with the names of the fields."""
    require(actor, Right.OPTIMIZATIONS_WRITE, team)
    faults: dict[str, str] = {}
    version = _version(parent, team, faults)
    chosen = recipes().get(recipe)
    if chosen is None:
        faults["recipe"] = _("There is no recipe %(name)s. Known: %(known)s.") % {
            "name": recipe, "known": ", ".join(recipes())
        }  # fmt: skip
    if not 0 < margin <= MOST_MARGIN:
        faults["margin"] = _("Give a number above 0, %(most)s at most.") % {"most": f"{MOST_MARGIN:g}"}
    if not 1 <= gain <= MOST_GAIN:
        faults["gain"] = _("Give a number from 1 to %(most)s.") % {"most": f"{MOST_GAIN:g}"}
    sets = {
        name: found
        for name, named in (("test", test), ("calibration", calibration))
        if (named or name == "test") and (found := _set(name, named, team, faults))
    }
    values: dict[str, Any] = {}
    if chosen is not None:
        # Only one engine draws pictures.
        engine = chosen.engines[0] if chosen.makes == "pictures" else engine
        values, wrong = chosen.values(parameters or {})
        faults |= {f"parameters.{name}": said for name, said in wrong.items()}
        if chosen.needs_calibration and not calibration:
            faults["calibration"] = _("%(recipe)s needs a calibration set: a file of texts.") % {
                "recipe": chosen.name
            }
        if engine not in chosen.engines:
            faults["engine"] = _("%(engine)s does not load what %(recipe)s makes. These do: %(engines)s.") % {
                "engine": engine, "recipe": chosen.name, "engines": ", ".join(chosen.engines)
            }  # fmt: skip
        if chosen.needs_gpu and not gpus and (place != RunPlace.LOCAL or not shutil.which("nvidia-smi")):
            faults["recipe"] = _("%(recipe)s needs a GPU: give the place cluster and a number of GPUs.") % {
                "recipe": chosen.name
            }
        faults |= _picture_faults(chosen, version, load_of, scenario)
    if compare_batching and engine != "transformers":
        faults["compare_batching"] = _("%(engine)s has no static batching to compare with.") % {
            "engine": engine
        }
    if (is_task_file(test) or is_scorer(test)) and engine != "transformers":
        faults["test"] = _(
            "The transformers engine alone answers task files and scorers: give items as JSON lines."
        )
    if is_scorer(test) and "test" in sets:
        try:
            check_code(sets["test"][0])
        except CodeNotAllowed as error:
            faults["test"] = str(error)
    faults |= _place_faults(team, cluster, place, gpus, chosen, test)
    drawn = _drawn(team, load_of, scenario, faults) if load_of else scenario
    if faults or version is None or chosen is None:
        raise _invalid(faults)
    limits = limits_of(chosen, parent_bytes=version.size_bytes, hours=settings.SLIPWAY_OPTIMIZATION_HOURS)
    _check_fit(version, limits, in_cluster=place == RunPlace.CLUSTER)
    if gpus:
        _check_quota(team, gpus * limits.seconds / 3600)
    order = {
        "cluster": cluster,
        "scenario": dict(drawn or DEFAULT_SCENARIO),
        "load_of": load_of,
        "compare_batching": compare_batching,
        "engine": engine,
        "repeats": repeats,
        "gain": gain,
    }
    benchmark = None if chosen.makes == "pictures" else _benchmark(team, order, [parent])
    return RunPlan(
        version,
        chosen,
        values,
        sets.get("calibration"),
        sets["test"],
        limits,
        order,
        benchmark,
        warnings_about(version),
        RunPlace(place),
        gpus,
    )


def _picture_faults(
    recipe: OptimizationRecipe, parent: Version | None, load_of: str, scenario: Mapping[str, Any] | None
) -> dict[str, str]:
    """Return what does not go together with a recipe for pictures, or with one for texts, by field."""
    faults = {}
    is_pipeline = VersionFile.objects.filter(version=parent, path=PIPELINE_INDEX).exists()
    if parent is not None and is_pipeline != (recipe.makes == "pictures"):
        said = (
            _("%(recipe)s is for language models; %(parent)s is a pipeline of diffusers.")
            if is_pipeline
            else _("%(recipe)s is for pipelines of diffusers; %(parent)s has no %(file)s.")
        )
        faults["recipe"] = said % {"recipe": recipe.name, "parent": parent, "file": PIPELINE_INDEX}
    if recipe.makes == "pictures" and (load_of or scenario):
        faults["load_of" if load_of else "scenario"] = _(
            "The load of pictures is the test set: leave this out."
        )
    return faults


def benchmark_spec(order: Mapping[str, Any], versions: list[str]) -> dict[str, Any]:
    """Return the spec of a benchmark of these versions."""
    cluster = Cluster.objects.present().filter(name=order["cluster"]).first()
    return {
        "versions": versions,
        "repeats": order["repeats"],
        "device": "auto" if cluster and gpus_of(cluster) else "cpu",
        "space": {
            "engines": [order["engine"]],
            "parameters": {BATCHING: [CONTINUOUS, STATIC]} if order.get("compare_batching") else {},
        },
    }


def _benchmark(team: Team, order: Mapping[str, Any], versions: list[str]) -> BenchmarkPlan:
    try:
        spec = benchmark_spec(order, versions)
        plan = plan_benchmark(
            actor=ACTOR, team=team, cluster=order["cluster"], scenario=order["scenario"], spec=spec
        )
    except InvalidBenchmark as error:
        raise InvalidOptimization(fields=error.fields) from None
    if not plan.runnable:
        raise _invalid({"engine": plan.cells[0].refusal})
    return plan


def warnings_about(parent: Version) -> list[str]:
    """Return what a version's model card says against versions that are derived from it."""
    try:
        licence = dict(written_of(parent).facts).get("license", "")
    except (NoCard, BlobMissing, Unavailable):
        return []
    if not NO_DERIVATIVES.search(licence.lower()):
        return []
    said = _("The licence of %(version)s, %(licence)s, forbids derivatives: what a recipe makes is one.")
    return [said % {"version": parent, "licence": licence}]


def _place_faults(
    team: Team, cluster: str, place: str, gpus: int, recipe: OptimizationRecipe | None, test: str
) -> dict[str, str]:
    """Return why the jobs of a run cannot be where they were ordered, by field."""
    if place not in RunPlace.values:
        return {"place": _("Give one of %(known)s.") % {"known": ", ".join(RunPlace.values)}}
    if place == RunPlace.LOCAL:
        return {"gpus": _("GPUs are for Jobs of a cluster: give the place cluster, too.")} if gpus else {}
    row = Cluster.objects.present().filter(name=cluster).first()
    if row is None:
        return {}
    if not abilities_of(row.kind).has_pods:
        return {"place": _("Cluster %(name)s runs no Jobs: leave the place out.") % {"name": cluster}}
    if not 0 <= gpus <= MOST_GPUS:
        return {"gpus": _("Give a number from 0 to %(most)s.") % {"most": MOST_GPUS}}
    if is_task_file(test) or is_scorer(test):
        local = _("Task files and scorers run beside the control plane: give items as JSON lines.")
        return {"test": local}
    if refusal := load_refusal(row) or image_refusal(recipe.family if recipe and recipe.lock else "", team):
        return {"place": refusal}
    if gpus and not machines_with_gpus(row):
        return {"gpus": _("Cluster %(name)s has no machine with a GPU that takes work.") % {"name": cluster}}
    return {}


def _check_quota(team: Team, hours: float) -> None:
    """Refuse GPU hours beyond the quota of benchmarks and recipes. Raises InvalidOptimization."""
    quota: float = settings.SLIPWAY_BENCHMARK_GPU_HOURS
    used = gpu_hours_used(team) if quota else 0.0
    if quota and used + hours > quota:
        said = _(
            "Team %(team)s has used %(used)s of %(quota)s GPU hours in 30 days; this takes about %(more)s."
        )
        told = {"team": team, "quota": f"{quota:g}", "used": f"{used:.1f}", "more": f"{hours:.2f}"}
        raise _invalid({"gpus": said % told})


def _check_fit(version: Version, limits: RunLimits, *, in_cluster: bool) -> None:
    """Refuse before a limit would kill. Raises InvalidOptimization."""
    if not VersionFile.objects.filter(version=version, path__endswith=".safetensors").exists():
        raise _invalid({"parent": _("%(version)s has no safetensors files.") % {"version": version}})
    if version.quantization:
        raise _invalid(
            {
                "parent": _("%(version)s is quantized already (%(method)s): choose its parent.")
                % {"version": version, "method": version.quantization}
            }
        )
    most = settings.SLIPWAY_OPTIMIZATION_MEMORY_GB * GB or (0 if in_cluster else free_memory_bytes())
    if most and limits.memory_bytes > most:
        short = _("It needs about %(needed)s GB of memory; %(free)s GB are there.")
        raise _invalid(
            {"recipe": short % {"needed": f"{limits.memory_bytes / GB:.1f}", "free": f"{most / GB:.1f}"}}
        )
    if limits.disk_bytes > (free := disk.room().free):
        short = _("It needs about %(needed)s GB of disk; %(free)s GB are free.")
        raise _invalid(
            {"recipe": short % {"needed": f"{limits.disk_bytes / GB:.1f}", "free": f"{free / GB:.1f}"}}
        )


def _version(label: str, team: Team, faults: dict[str, str]) -> Version | None:
    model, _colon, name = label.partition(":")
    rows = Version.objects.filter(model__team=team, model__name=model, name=name, state=VersionState.READY)
    found = rows.select_related("model__team").first()
    if found is None:
        faults["parent"] = _("Team %(team)s has no ready version %(label)s.") % {"team": team, "label": label}
    return found


def _set(name: str, named: str, team: Team, faults: dict[str, str]) -> tuple[Version, dict[str, Any]] | None:
    try:
        return item_file(team, named)
    except NoSuchItemFile as error:
        faults[name] = str(error)
        return None


def _drawn(
    team: Team, service: str, given: Mapping[str, Any] | None, faults: dict[str, str]
) -> Mapping[str, Any] | None:
    """Return the scenario of a service's last seven days."""
    if given is not None:
        faults["load_of"] = _("Give a scenario or a service whose load is taken, not both.")
    elif not deployments_of(service).filter(team=team).exists():
        faults["load_of"] = _("Team %(team)s has no service %(name)s that runs.") % {
            "team": team, "name": service
        }  # fmt: skip
    else:
        load = service_load(service, since=clock.now() - LOAD_KEPT)
        if load is not None and sum(load.prompts) >= LEAST_REQUESTS:
            return scenario_of(load)
        counted = sum(load.prompts) if load else 0
        faults["load_of"] = _(
            "%(name)s has counted the lengths of %(counted)s requests in the last seven days; %(least)s are "
            "needed. Give a scenario instead."
        ) % {"name": service, "counted": counted, "least": LEAST_REQUESTS}
    return None


def _invalid(faults: Mapping[str, str]) -> InvalidOptimization:
    return InvalidOptimization(fields={name: [said] for name, said in faults.items()})
