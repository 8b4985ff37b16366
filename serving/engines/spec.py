"""How an engine is described, once for the worker, the forms, the images, the command line and the relay.

Standard library only: every part of the product may read it. The entries are the files of
`serving.engines.specs`, one engine each; `serving.engines.registry` is the list of them.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from signal import SIGTERM, Signals
from typing import Any, Literal

CHAT, COMPLETIONS, EMBEDDINGS, RERANK, RESPONSES = "chat", "completions", "embeddings", "rerank", "responses"
ENABLE_LORA = "enable_lora"
"""Setting without which a server program loads no adapters."""
DTYPES = ("auto", "float32", "bfloat16", "float16")
"""`auto` is as the weights are stored."""


def gettext_noop(text: str) -> str:
    """Marks a text for the catalogue of translations; pages translate it when they show it."""
    return text


@dataclass(frozen=True, slots=True)
class EngineSetting:
    """A setting by its name in the engine; bounds are included. `alias`: what `start_llm_engine` and other
    engines call the same."""

    key: str
    label: str
    kind: Literal["integer", "number", "text", "choice", "flag", "object"]
    help: str = ""
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    placeholder: str = ""
    alias: str = ""

    def schema(self) -> dict[str, Any]:
        """JSON Schema of its value."""
        types = {"flag": "boolean", "text": "string", "choice": "string"}
        bounds = {"minimum": self.least, "maximum": self.most}
        return {
            "type": types.get(self.kind, self.kind),
            "title": self.label,
            **({"description": self.help} if self.help else {}),
            **({"enum": list(self.choices)} if self.choices else {}),
            **{name: bound for name, bound in bounds.items() if bound is not None},
        }


@dataclass(frozen=True, kw_only=True)
class MetricNames:
    """Series of a server's Prometheus text by what they tell.

    A value is a series, with labels where they matter, or a sum of some: `a{code="500"} + b - c`. Of several
    values the first one counts whose first series is there. `ttft` and `tpot` are histograms in seconds.
    """

    present: tuple[str, ...]
    """One of these is there if it is this server."""
    path: str = "/metrics"
    running: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    worked_seconds: tuple[str, ...] = ()
    """Time that requests were worked on, summed, where `running` is not told."""
    worked_unit: float = 1.0
    kv_used: tuple[str, ...] = ()
    """Share of the key-value cache, 0 to 1."""
    requests: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    prompt_tokens: tuple[str, ...] = ()
    completion_tokens: tuple[str, ...] = ()
    ttft: tuple[str, ...] = ()
    tpot: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class AdapterCall:
    """The call that loads or unloads a LoRA adapter of a server. `{name}` and `{path}` are filled in."""

    path: str
    body: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class ServerProgram:
    """A program that our worker starts as its child and forwards OpenAI requests to.

    In `arguments`, `{model}`, `{socket}`, `{port}`, `{name}` and `{slots}` are filled in; `{names}` becomes
    one argument for each name under which requests may ask for the model.
    """

    command: tuple[str, ...]
    """Its first word is looked for on the PATH."""
    arguments: tuple[str, ...]
    is_named_by_all: bool = True
    """Requests may name the model by any of the worker's names; else by the service alone."""
    model_file: str = ""
    """Pattern of the one file that it is given instead of the version's directory."""
    slots_option: str = ""
    """Option that bounds the requests at work."""
    refused: str = "(?!)"
    """Pattern of options that a version or a service must not give: set by the worker, or a way to run code
    or to listen elsewhere."""
    separate_values: bool = False
    """An option's value is a word of its own, not behind `=`."""
    underscores: bool = False
    """Its options have `_` between words."""
    false_option: Literal["no-", "left out"] = "no-"
    """How a flag is switched off."""
    health_path: str = "/health"
    stop_signal: Signals = SIGTERM
    environment: Mapping[str, str] = field(default_factory=dict)
    locked_environment: str = ""
    """Name of the environment for a machine without a GPU, made where the program is not on the PATH."""
    locked_command: tuple[str, ...] = ()
    """The command there; its first word is a program of the environment."""
    locked_variables: Mapping[str, str] = field(default_factory=dict)
    """Its variables; those that the worker has itself come first."""
    load_adapter: AdapterCall | None = None
    unload_adapter: AdapterCall | None = None
    adapter_options: tuple[str, ...] = ()
    """Added where the version brings adapters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodServer:
    """The start of the maker's own image, without a worker of ours (`clusters.backends.servers.Server`)."""

    command: tuple[str, ...] = ()
    """Empty: the image's own."""
    args: tuple[str, ...] = ()
    health_path: str = "/health"
    metrics_port: int | None = None


@dataclass(frozen=True, kw_only=True)
class EngineSpec:
    """An engine: what it takes, what it can do, how it is started and read."""

    name: str
    in_worker: bool = False
    """Our worker runs it (`serving.worker --engine`)."""
    has_worker_image: bool = True
    """In pods it runs in our worker, unless the service says otherwise; else by its maker's image."""
    settings: Sequence[EngineSetting] = ()
    """Those that have a field; a server program takes its further options as they are."""
    has_own_adapters: bool = False
    """It loads LoRA adapters by itself while it runs, as programs do that have a call for it."""
    program: ServerProgram | None = None
    pod_server: PodServer | None = None
    metrics: MetricNames | None = None
    apis: frozenset[str] = frozenset()
    formats: tuple[str, ...] = ()
    """Of weights, as the registry names them."""
    spans_machines: bool = False
    context_setting: str = ""
    """The setting that limits the context."""
    memory_share_setting: str = ""
    least_capabilities: Mapping[str, str] = field(default_factory=dict)
    """Compute capability that it needs, by quantisation."""
    fp8_fallback: tuple[str, str] | None = None
    """From which compute capability on (empty: any) it runs FP8 weights on GPUs without FP8, and how."""

    @property
    def is_served(self) -> bool:
        """A service may name it."""
        return self.in_worker or self.pod_server is not None

    @property
    def has_environments(self) -> bool:
        """Whether a worker may have to make an environment for it."""
        return self.name == "app" or (self.program is not None and bool(self.program.locked_environment))

    @property
    def loads_adapters(self) -> bool:
        """Whether it loads and unloads LoRA adapters while it runs."""
        return self.has_own_adapters or (self.program is not None and self.program.load_adapter is not None)

    def is_ready_for_adapters(self, settings: Mapping[str, Any]) -> bool:
        """Whether workers with these settings load adapters that their version does not bring."""
        spelled = {self.spelling(key): value for key, value in settings.items()}
        return self.loads_adapters and (self.has_own_adapters or bool(spelled.get(ENABLE_LORA)))

    def spelling(self, key: str) -> str:
        """The key of a setting, whose words a server program may have with hyphens too."""
        return key.replace("-", "_") if self.program is not None else key

    def settings_schema(self) -> dict[str, Any]:
        """JSON Schema of the settings of a service with this engine."""
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": self.name,
            "type": "object",
            "properties": {setting.key: setting.schema() for setting in self.settings},
            "additionalProperties": self.program is not None,
        }

    def unaliased(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Settings by the engine's own names, where they were given by the names that engines share."""
        own = {setting.alias: setting.key for setting in self.settings if setting.alias}
        return {own.get(key, key): value for key, value in settings.items()}


_SUM = re.compile(r"\s+([+-])\s+")


def terms(expression: str) -> list[tuple[int, str]]:
    """`a + b - c` as signs and series."""
    first, *rest = _SUM.split(expression)
    return [
        (1, first),
        *((1 if sign == "+" else -1, name) for sign, name in zip(rest[::2], rest[1::2], strict=True)),
    ]


def flag_setting(key: str, label: str, help: str = "", *, alias: str = "") -> EngineSetting:
    """A setting that is on or off."""
    return EngineSetting(key, label, "flag", help, alias=alias)


def count_setting(
    key: str, label: str, help: str = "", *, least: int = 1, most: int = 1_024, alias: str = ""
) -> EngineSetting:
    """A whole number."""
    return EngineSetting(key, label, "integer", help, least, most, alias=alias)
