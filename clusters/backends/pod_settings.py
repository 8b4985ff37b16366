"""Pod settings of a service, as REST, forms and commands give them, and what is wrong with them.

Two JSON objects: `resources`, what is set aside for each worker, and `pod`, where and how its pod runs.
Pure: what is not known is refused here, before anything is stored.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictStr, ValidationError, model_validator

from clusters.backends.gpu_names import NVIDIA, is_slice
from clusters.backends.kubernetes.quantities import amount
from clusters.backends.labels import is_label
from clusters.backends.placement import (
    Placement,
    Resources,
    SecretKey,
    Spread,
    TaintEffect,
    Toleration,
)
from clusters.backends.pod_values import (
    Argument,
    Bytes,
    Cpus,
    GpuName,
    Measured,
    Name,
    Path,
    Port,
    Series,
    Variable,
    check_directory,
    check_label_key,
    check_labels,
    check_load,
    check_namespace,
)
from clusters.backends.servers import USUAL, ModelServer
from serving.engines.registry import ENGINES, IMAGE_ENGINES

MOST_GPUS = 64
MOST_NODES = 64
_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")


class PodFaults(Exception):
    """`faults`: sentences, by the place that they are about: `tolerations.0.effect`."""

    def __init__(self, faults: Mapping[str, list[str]]) -> None:
        super().__init__("; ".join(f"{place}: {' '.join(told)}" for place, told in faults.items()))
        self.faults = faults


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", coerce_numbers_to_str=False)

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> Self:
        """Raises PodFaults."""
        try:
            return cls.model_validate(given)
        except ValidationError as error:
            raise PodFaults(_faults(cls, error)) from None

    def to_dict(self) -> dict[str, Any]:
        """Return the given settings alone."""
        return self.model_dump(mode="json", exclude_unset=True)


class ResourceSettings(_Settings):
    """Set aside for each worker; where it spans machines, on each of them."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    gpus_per_worker: Annotated[int, Field(strict=True, ge=0, le=MOST_GPUS)] = 1
    gpu_resource: GpuName | None = None
    cpus: Cpus | None = None
    cpu_limit: Cpus | None = None
    memory: Bytes | None = None
    memory_limit: Bytes | None = None
    shared_memory: Bytes | None = None

    @model_validator(mode="after")
    def _limits_are_enough(self) -> Self:
        for least, most in (("cpus", "cpu_limit"), ("memory", "memory_limit")):
            wanted, limit = getattr(self, least), getattr(self, most)
            if wanted and limit and amount(wanted) > amount(limit):
                raise ValueError(f"{most} must not be less than {least}.")
        if self.gpu_resource and is_slice(self.gpu_resource) and self.gpus_per_worker > 1:
            raise ValueError(
                "gpus_per_worker: a worker makes use of one slice of a GPU, whatever it is given."
            )
        return self

    def resources(self) -> Resources:
        return Resources(
            gpus=self.gpus_per_worker,
            gpu_resource=self.gpu_resource or NVIDIA,
            cpus=float(amount(self.cpus or 0)),
            cpu_limit=float(amount(self.cpu_limit or 0)),
            memory_bytes=int(amount(self.memory or 0)),
            memory_limit_bytes=int(amount(self.memory_limit or 0)),
            shared_memory_bytes=int(amount(self.shared_memory or 0)),
        )


class TolerationSetting(_Settings):
    """A toleration as in Kubernetes."""

    key: StrictStr = ""
    operator: Literal["Exists", "Equal"] | None = None
    value: StrictStr | None = None
    effect: TaintEffect | None = None
    seconds: Annotated[int, Field(strict=True, ge=0)] | None = None

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        operator = self.operator or ("Exists" if self.value is None else "Equal")
        if operator == "Exists" and self.value:
            raise ValueError("Exists takes no value.")
        if operator == "Equal" and not self.key:
            raise ValueError("Name the key of the taint, or use Exists.")
        if self.key and not is_label(self.key, self.value or ""):
            raise ValueError(f"{self.key}={self.value or ''} cannot be a taint.")
        if self.seconds is not None and self.effect != TaintEffect.NO_EXECUTE:
            raise ValueError("Seconds are for the effect NoExecute.")
        return self

    def toleration(self) -> Toleration:
        value = (self.value or "") if self.operator == "Equal" else self.value
        return Toleration(key=self.key, effect=self.effect, value=value, seconds=self.seconds)


class SpreadSetting(_Settings):
    topology_key: Annotated[StrictStr, AfterValidator(check_label_key)]
    max_skew: Annotated[int, Field(strict=True, ge=1, le=100)] = 1
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"] = "ScheduleAnyway"


class SecretKeySetting(_Settings):
    secret: Name
    key: Annotated[StrictStr, Field(pattern=_KEY)]


class ServerSetting(_Settings):
    """The image's own server in place of our worker; what is left out is as usual for its kind."""

    command: Annotated[tuple[Argument, ...], Field(max_length=50)] | None = None
    args: Annotated[tuple[Argument, ...], Field(max_length=200)] | None = None
    port: Port | None = None
    health_path: Path | None = None
    model_path: Annotated[StrictStr, Field(max_length=200), AfterValidator(check_directory)] | None = None
    metrics_path: Path | None = None
    metrics_port: Port | None = None
    metrics: Annotated[dict[Measured, Series], AfterValidator(check_load)] | None = None


class PodSettings(_Settings):
    """Pod settings of a service; omitted ones are as the cluster has them."""

    namespace: Annotated[StrictStr, AfterValidator(check_namespace)] | None = None
    node_selector: Annotated[dict[StrictStr, StrictStr], AfterValidator(check_labels)] = Field(
        default_factory=dict
    )
    tolerations: Annotated[tuple[TolerationSetting, ...], Field(max_length=50)] = ()
    topology_spread: Annotated[tuple[SpreadSetting, ...], Field(max_length=10)] = ()
    priority_class: Name | None = None
    runtime_class: Name | None = None
    image_pull_secrets: Annotated[tuple[Name, ...], Field(max_length=10)] = ()
    env: Annotated[dict[Variable, Argument], Field(max_length=100)] = Field(default_factory=dict)
    secret_env: Annotated[dict[Variable, SecretKeySetting], Field(max_length=100)] = Field(
        default_factory=dict
    )
    load_within_seconds: Annotated[int, Field(strict=True, ge=60, le=86_400)] = 3_600
    grace_seconds: Annotated[int, Field(strict=True, ge=1, le=7_200)] = 30
    nodes_per_replica: Annotated[int, Field(strict=True, ge=1, le=MOST_NODES)] = 1
    replicas: Literal["external"] | None = None
    server: ServerSetting | None = None

    @model_validator(mode="after")
    def _variables_once(self) -> Self:
        if twice := sorted(self.env.keys() & self.secret_env.keys()):
            raise ValueError(f"{', '.join(twice)}: give the variable in env or in secret_env, not in both.")
        return self

    def placement(self) -> Placement:
        return Placement(
            namespace=self.namespace or "",
            node_selector=self.node_selector,
            tolerations=tuple(one.toleration() for one in self.tolerations),
            spread=tuple(
                Spread(
                    topology_key=one.topology_key,
                    max_skew=one.max_skew,
                    is_required=one.when_unsatisfiable == "DoNotSchedule",
                )
                for one in self.topology_spread
            ),
            image_pull_secrets=self.image_pull_secrets,
            priority_class=self.priority_class or "",
            runtime_class=self.runtime_class or "",
        )

    def secrets(self) -> dict[str, SecretKey]:
        return {name: SecretKey(one.secret, one.key) for name, one in self.secret_env.items()}

    def server_of(self, engine: str) -> ModelServer | None:
        """Return the server of the image; None: our worker runs the engine."""
        if self.server is None and engine not in IMAGE_ENGINES:
            return None
        given = self.server.model_dump(exclude_none=True) if self.server else {}
        return replace(USUAL.get(engine, ModelServer()), **given)


def place_faults(pod: PodSettings, settings: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the settings that a Kubernetes cluster has not opened to services."""
    found: dict[str, list[str]] = {}
    namespaces = [settings.get("namespace") or "slipway", *settings.get("namespaces", ())]
    if pod.namespace and pod.namespace not in namespaces:
        found["namespace"] = [f"The cluster lets Slipway use {', '.join(namespaces)}."]
    for name, one in pod.secret_env.items():
        if one.secret not in settings.get("env_secrets", ()):
            found[f"secret_env.{name}"] = [
                f"Services may not read the secret {one.secret} there: whoever operates the cluster opens it "
                "by env_secrets of its settings."
            ]
    return found


def _sizes_fault(nodes: int, gpus: int, settings: Mapping[str, Any]) -> str:
    sizes = {name.replace("_", "-"): size for name, size in settings.items()}
    given = [sizes.get(f"{kind}-parallel-size", 1) for kind in ("tensor", "pipeline", "data")]
    if given == [1, 1, 1] or not all(isinstance(one, int) for one in given):
        return ""
    if (wanted := prod(given)) == nodes * gpus:
        return ""
    return (
        f"{nodes} machines with {gpus} GPUs each are {nodes * gpus} GPUs, and the engine's settings (tensor, "
        f"pipeline and data parallel size) make use of {wanted}."
    )


def engine_faults(
    engine: str, pod: PodSettings, *, gpus: int = 1, settings: Mapping[str, Any] | None = None
) -> dict[str, list[str]]:
    """Return the settings that the engine cannot have. `gpus`: on each machine; `settings`: the engine's."""
    settings = settings or {}
    found: dict[str, list[str]] = {}
    if pod.server is not None and engine not in USUAL:
        known = ", ".join(USUAL)
        found["server"] = [f"The engine {engine} runs in our worker alone. Choose one of {known}."]
    if pod.server is not None and pod.server.metrics is not None and engine != "openai":
        found["server.metrics"] = [f"The metrics of {engine} are known: names are for the engine openai."]
    if pod.nodes_per_replica > 1 and pod.replicas is not None:
        found["replicas"] = ["The number of workers that span machines is Slipway's: leave it out."]
    if pod.nodes_per_replica > 1 and (
        engine not in ENGINES or not ENGINES[engine].spans_machines or pod.server is not None
    ):
        found["nodes_per_replica"] = ["Only our worker with the engine vllm can span machines."]
    elif pod.nodes_per_replica > 1 and (said := _sizes_fault(pod.nodes_per_replica, gpus, settings)):
        found["nodes_per_replica"] = [said]
    return found


def _faults(kind: type[_Settings], error: ValidationError) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for one in error.errors(include_url=False):
        place = ".".join(str(part) for part in one["loc"] if part != "[key]")
        found.setdefault(place, []).append(_sentence(kind, one))
    return found


def _sentence(kind: type[_Settings], error: Any) -> str:
    if error["type"] == "extra_forbidden":
        known = _fields_at(kind, error["loc"][:-1])
        return f"There is no such setting. There are {', '.join(known)}." if known else "Not known."
    text = str(error["msg"]).removeprefix("Value error, ").replace("Input should be", "It must be")
    return text if text.endswith(".") else f"{text}."


def _fields_at(kind: type[_Settings], place: tuple[Any, ...]) -> list[str]:
    names: dict[str, type[_Settings]] = {
        "tolerations": TolerationSetting,
        "topology_spread": SpreadSetting,
        "secret_env": SecretKeySetting,
        "server": ServerSetting,
    }
    at = names.get(str(place[0]), kind) if place else kind
    return sorted(at.model_fields)
