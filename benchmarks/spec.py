"""What a benchmark is asked to do, as a JSON object says it; and its cells. Pure."""

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from json import dumps
from typing import Any

from django.utils.translation import gettext as _

from benchmarks.constraints import BadConstraint, holds
from benchmarks.figures import SAMPLE_FLOORS
from benchmarks.load.faults import FaultText, is_number, is_whole, known_fields, not_one_of, not_whole
from benchmarks.service_target import ServiceTarget, service_target
from benchmarks.states import LoadEngineKind, ObjectiveKind, PriorKind, Strategy
from benchmarks.statistics import LEAST_REPEATS
from clusters.engine_settings import fault, setting_faults, settings_of
from serving.engines.registry import ENGINES
from serving.engines.spec import EngineSetting

MOST_CELLS = 10_000
MOST_RUNS = 2_000
MOST_REPEATS = 20
MOST_VALUES = 64
DEPLOYMENT_SETTINGS: Mapping[str, EngineSetting] = {
    "slots": EngineSetting("slots", "Slots", "integer", least=1, most=4096),
    "replicas": EngineSetting("replicas", "Replicas", "integer", least=1, most=64),
    "gpus_per_worker": EngineSetting("gpus_per_worker", "GPUs per worker", "integer", least=1, most=64),
}
"""Parameters of the deployment, beside those of its engine."""
DEFAULT_SLOTS = 8
OF_DEPLOYED = frozenset({"versions", "space", "strategy", "prior", "device"})
"""Fields of servers that the benchmark deploys itself."""
_WORD = re.compile(r"[A-Za-z_]\w*")
_RANGE_ENDS = frozenset({"least", "most"})
_RANGE_FIELDS = _RANGE_ENDS | {"step", "factor"}
LATENCIES = tuple(f"{name}_p{percent}" for name in ("ttft", "tpot", "e2e") for percent in SAMPLE_FLOORS)


class SpecFaults(ValueError):
    def __init__(self, faults: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{name}: {said}" for name, said in faults.items()))
        self.fields = dict(faults)


@dataclass(frozen=True, slots=True)
class SearchSpace:
    engines: tuple[str, ...] = ("transformers",)
    parameters: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """Values of each."""
    constraints: tuple[str, ...] = ()
    machines: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Kinds of machines: labels that select them, by a name."""
    images: tuple[str, ...] = ()
    """Names in the catalogue; empty: the one that fits best."""

    def size(self, versions: int) -> int:
        """Cells before constraints."""
        sides = (len(self.engines), len(self.machines) or 1, len(self.images) or 1)
        return versions * math.prod(sides) * math.prod(len(some) for some in self.parameters.values())


@dataclass(frozen=True, slots=True)
class BenchmarkObjective:
    kind: str = ObjectiveKind.GOODPUT
    figure: str = "ttft_p95"
    """Of `latency`: which one is to be low."""

    @property
    def is_lower_better(self) -> bool:
        return self.kind == ObjectiveKind.LATENCY


@dataclass(frozen=True, slots=True)
class RunBudget:
    """Limits of what the runs take. None: no limit of this kind."""

    runs: int | None = None
    gpu_hours: float | None = None
    money: float | None = None
    hours: float | None = None
    """After its beginning nothing new is started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkSpec:
    versions: tuple[str, ...] = ()
    """`model:version` each; none of a running service, which has its own."""
    target: ServiceTarget | None = None
    space: SearchSpace = SearchSpace()
    objective: BenchmarkObjective = BenchmarkObjective()
    strategy: str = Strategy.GRID
    prior: str = PriorKind.ROOFLINE
    load_engine: str = LoadEngineKind.BUILTIN
    repeats: int = LEAST_REPEATS
    budget: RunBudget = RunBudget()
    device: str = "auto"
    ready_within_seconds: int = 900

    def as_json(self) -> dict[str, Any]:
        left_out = OF_DEPLOYED if self.target else {"target"}
        return {name: value for name, value in asdict(self).items() if name not in left_out}


@dataclass(frozen=True, slots=True)
class CellPlan:
    """A configuration of the space."""

    version: str
    engine: str
    machine: str = ""
    image: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        return sha256(dumps(asdict(self), sort_keys=True).encode()).hexdigest()


def spec_of(given: Mapping[str, Any]) -> BenchmarkSpec:
    """Raises SpecFaults."""
    faults: dict[str, str] = {}
    values = _known(given, BenchmarkSpec, "", faults)
    if values.get("target") is not None:
        return _of_service(values, faults)
    values["versions"] = _versions(values.get("versions"), faults)
    if "space" in values:
        values["space"] = _space(values["space"], faults)
    _read_rest(values, faults)
    if faults:
        raise SpecFaults(faults)
    spec = BenchmarkSpec(**values)
    size = spec.space.size(len(spec.versions))
    if size > MOST_CELLS:
        raise SpecFaults(
            {"space": _("%(size)s configurations are more than %(most)s: give fewer values.")
             % {"size": f"{size:,}", "most": f"{MOST_CELLS:,}"}}
        )  # fmt: skip
    found = next(iter_cells(spec), None)
    if found is None:
        raise SpecFaults({"space.constraints": _("No configuration of the space meets the constraints.")})
    return spec


def _of_service(values: dict[str, Any], faults: dict[str, str]) -> BenchmarkSpec:
    """Raises SpecFaults."""
    for name in OF_DEPLOYED & values.keys():
        faults[name] = _("Leave this out: a running service has its own version and settings.")
        del values[name]
    values["target"] = service_target(values["target"], faults)
    _read_rest(values, faults)
    if faults:
        raise SpecFaults(faults)
    return BenchmarkSpec(**values)


def _versions(given: object, faults: dict[str, str]) -> tuple[str, ...]:
    if not isinstance(given, Sequence) or not given or not all(_is_label(one) for one in given):
        faults["versions"] = _("Name at least one version, such as chat:v1.")
        return ()
    return tuple(dict.fromkeys(given))


def _read_rest(values: dict[str, Any], faults: dict[str, str]) -> None:
    """Read in place what benchmarks of either target have."""
    if "objective" in values:
        values["objective"] = _objective(values["objective"], faults)
    if values.get("strategy", Strategy.GRID) not in Strategy.values:
        faults["strategy"] = _one_of(Strategy.values)
    if values.get("prior", PriorKind.ROOFLINE) not in PriorKind.values:
        faults["prior"] = _one_of(PriorKind.values)
    if values.get("load_engine", LoadEngineKind.BUILTIN) not in LoadEngineKind.values:
        faults["load_engine"] = _one_of(LoadEngineKind.values)
    _whole("repeats", values, 1, MOST_REPEATS, faults)
    _whole("ready_within_seconds", values, 5, 86_400, faults)
    if values.get("device", "auto") not in ("auto", "cpu", "cuda"):
        faults["device"] = _one_of(("auto", "cpu", "cuda"))
    if "budget" in values:
        values["budget"] = _budget(values["budget"], faults)


def iter_cells(spec: BenchmarkSpec) -> Iterator[CellPlan]:
    """Yield the cells in the order of the space, each once. Raises SpecFaults for a constraint that makes no
    sense.

    An engine's cells have the parameters that it knows, and constraints about others leave them alone.
    """
    space = spec.space
    seen: set[str] = set()
    sides = (spec.versions, space.engines, list(space.machines) or [""], space.images or ("",))
    for version, engine, machine, image in itertools.product(*sides):
        theirs = {_bare(name): some for name, some in space.parameters.items() if _has(engine, name)}
        foreign = {_bare(name) for name in space.parameters} - theirs.keys()
        constraints = [one for one in space.constraints if not foreign & set(_WORD.findall(one))]
        for chosen in itertools.product(*theirs.values()):
            parameters = dict(zip(theirs, chosen, strict=True))
            known = {**parameters, "engine": engine, "machine": machine, "version": version, "image": image}
            try:
                cell = CellPlan(version, engine, machine, image, parameters)
                if all(holds(one, known) for one in constraints) and cell.digest not in seen:
                    seen.add(cell.digest)
                    yield cell
            except BadConstraint as error:
                raise SpecFaults({"space.constraints": str(error)}) from None


def _objective(given: object, faults: dict[str, str]) -> BenchmarkObjective:
    told = _known(given, BenchmarkObjective, "objective.", faults)
    if told.get("kind", ObjectiveKind.GOODPUT) not in ObjectiveKind.values:
        faults["objective.kind"] = _one_of(ObjectiveKind.values)
    if told.get("figure", LATENCIES[0]) not in LATENCIES:
        faults["objective.figure"] = _one_of(LATENCIES)
    return BenchmarkObjective(**told)


def _budget(given: object, faults: dict[str, str]) -> RunBudget:
    told = _known(given, RunBudget, "budget.", faults)
    for name, value in told.items():
        if value is not None and not is_number(value, above=0):
            faults[f"budget.{name}"] = _("Give a number above 0, or leave it out.")
    return RunBudget(**told)


def _space(given: object, faults: dict[str, str]) -> SearchSpace:
    told = _known(given, SearchSpace, "space.", faults)
    engines = told.get("engines", ("transformers",))
    if not _is_list_of_texts(engines) or not engines or not set(engines) <= set(ENGINES):
        faults["space.engines"] = _one_of(tuple(ENGINES))
        engines = ()
    parameters: dict[str, tuple[Any, ...]] = {}
    asked = told.get("parameters", {})
    if not isinstance(asked, Mapping):
        faults["space.parameters"] = _("Give a JSON object: values by the parameter's name.")
        asked = {}
    for name, wanted in asked.items():
        place = f"space.parameters.{name}"
        found = _values(wanted)
        if not found or len(found) > MOST_VALUES:
            faults[place] = _("Give 1 to %(most)s values, or a range: least, most, and step or factor.") % {
                "most": MOST_VALUES
            }
        elif said := _parameter_fault(name, found, engines):
            faults[place] = said
        parameters[name] = found
    for name in ("constraints", "images"):
        if not _is_list_of_texts(told.setdefault(name, ())):
            faults[f"space.{name}"] = _("Give a list of strings.")
            told[name] = ()
    machines = told.get("machines", {})
    if not isinstance(machines, Mapping) or not all(isinstance(one, Mapping) for one in machines.values()):
        faults["space.machines"] = _("Give a JSON object: labels of machines by a name of your choice.")
        machines = {}
    kinds = {name: dict(labels) for name, labels in machines.items()}
    return SearchSpace(tuple(engines), parameters, tuple(told["constraints"]), kinds, tuple(told["images"]))


def _values(wanted: object) -> tuple[Any, ...]:
    """Return the values of a list, or of a range by steps or factors."""
    if isinstance(wanted, Sequence) and not isinstance(wanted, str):
        return tuple(dict.fromkeys(one for one in wanted if isinstance(one, str | int | float)))
    if not isinstance(wanted, Mapping) or not _RANGE_ENDS <= set(wanted) <= _RANGE_FIELDS:
        return ()
    if not all(map(is_number, wanted.values())):
        return ()
    step, factor = wanted.get("step", 0), wanted.get("factor", 0)
    if step <= 0 and (factor <= 1 or wanted["least"] <= 0):
        return ()
    found: list[Any] = []
    value = wanted["least"]
    while value <= wanted["most"] and len(found) <= MOST_VALUES:
        found.append(value)
        value = value + step if step > 0 else value * factor
    return tuple(found)


def _parameter_fault(name: str, values: Sequence[Any], engines: Sequence[str]) -> str:
    if name in DEPLOYMENT_SETTINGS:
        return next((said for value in values if (said := fault(DEPLOYMENT_SETTINGS[name], value))), "")
    known = {one.key: None for engine in engines for one in settings_of(engine)}
    owner, _dot, bare = name.rpartition(".")
    is_option = owner in engines and ENGINES[owner].program is not None
    if engines and not is_option and not any(_has(engine, name) and bare in known for engine in engines):
        return _("%(engine)s has no such parameter. Known: %(names)s.") % {
            "engine": ", ".join(engines),
            "names": ", ".join((*known, *DEPLOYMENT_SETTINGS)),
        }
    for engine in engines:
        for value in values if _has(engine, name) else ():
            if faults := setting_faults(engine, {bare: value}):
                return faults[0].removeprefix(f"{bare}: ")
    return ""


def _has(engine: str, parameter: str) -> bool:
    """Return whether the engine takes it: each takes those that it knows, and `vllm.x` is vLLM's alone."""
    owner, _dot, name = parameter.rpartition(".")
    if owner:
        return owner == engine
    return name in DEPLOYMENT_SETTINGS or any(one.key == name for one in settings_of(engine))


def _bare(parameter: str) -> str:
    return parameter.rpartition(".")[2]


def _known(given: object, kind: type, prefix: str, faults: dict[str, str]) -> dict[str, Any]:
    found: dict[str, FaultText] = {}
    values = known_fields(given, kind, prefix, found, root="spec")
    faults |= {name: said.translated(_) for name, said in found.items()}
    return values


def _whole(name: str, values: Mapping[str, Any], least: int, most: int, faults: dict[str, str]) -> None:
    if not is_whole(values.get(name, least), least, most):
        faults[name] = not_whole(least, most).translated(_)


def _is_list_of_texts(value: object) -> bool:
    if not isinstance(value, Sequence) or isinstance(value, str):
        return False
    return all(isinstance(one, str) for one in value)


def _is_label(value: object) -> bool:
    return isinstance(value, str) and 0 < value.find(":") < len(value) - 1


def _one_of(choices: Sequence[str]) -> str:
    return not_one_of(choices).translated(_)
