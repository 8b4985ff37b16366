"""What the control plane and a model worker tell each other: how a worker is started, and what it reports.

Standard library only. This is the one module of `serving` that the control plane imports.

A worker POSTs `{"workers": [heartbeat, ...]}` (`Content-Type: application/json`, `Authorization: Bearer
<token>`) to the heartbeat URL every second; any 2xx answer is an acknowledgement. A reader ignores keys
that it does not know, so that workers and control plane may be of different ages.
"""

import argparse
import dataclasses
import json
import math
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Self, get_args, get_type_hints

HEARTBEAT_SECONDS = 1.0
BUSY_WINDOW_SECONDS = 10.0
LOST_AFTER_SECONDS = 5.0
MAX_WORKERS_PER_BATCH = 1_000
ENGINES = ("transformers", "vllm", "echo")
DEVICES = ("auto", "cpu", "cuda")
CHOSEN_BY_HEADER = "x-slipway-chosen-by"
"""Whose choice the version of a request was, as the gateway says: `client`, or else its own by weight."""
LATENCY_BOUNDS_MS: tuple[float, ...] = tuple(
    round(digit * 10**decade, 1)
    for decade in range(6)
    for digit in (1.0, 1.3, 1.6, 2.0, 2.5, 3.2, 4.0, 5.0, 6.3, 8.0)
    if digit * 10**decade <= 320_000
)
"""1 ms to 320 s in steps of about 1.26 (the R10 series of ISO 3). Two digits each, because Envoy keeps its
samples in bins of two digits: at these bounds its counts are exact, elsewhere it interpolates."""

EXIT_DONE, EXIT_FAILED, EXIT_USAGE, EXIT_PORT_TAKEN = 0, 1, 2, 3
"""How a worker ends: see `WorkerCommand`."""

# Nothing that a worker loads may reach for a hub, and a worker that cannot keep its byte code compiles
# transformers anew at every start (14 s instead of 6 s on two cores).
WORKER_ENVIRONMENT: Mapping[str, str] = {
    "DO_NOT_TRACK": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_OFFLINE": "1",
    "PYTHONDONTWRITEBYTECODE": "",
    "PYTHONUNBUFFERED": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
}

_SUMMARY = "Serves one model version over HTTP."
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_LABEL = re.compile(r"[^\s:]{1,200}:[^\s:]{1,200}")
_ABILITY = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


class ProtocolError(ValueError):
    """A heartbeat, a batch or a command line that cannot be what was meant; the text names the field."""


class WorkerState(StrEnum):
    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Recent observations in milliseconds; `count` of them (at most the last minute's)."""

    p50_ms: float
    p95_ms: float
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """Totals since the process started (`Heartbeat.started_at` tells a restart from a reset).

    `requests` counts generation requests that were answered in whole, with whatever status; `errors` those
    of them that ended in a 5xx or broke off while streaming; `refused` those turned away (429 by the full
    queue, 503 when the worker was not ready).
    """

    requests: int = 0
    errors: int = 0
    refused: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """What one worker says about itself once a second.

    `worker` names the seat and survives restarts; `pid` and `started_at` tell its processes apart.
    `address`:`port` is where the gateway reaches it. `busy` (0..1) is the mean share of its slots at work
    over the last 10 s: for people, scaling and alarms. `in_flight / slots` is the load of this instant: for
    routing. `queue_depth` counts requests that wait for a slot. `reason` says in words why the state is not
    `ready`. `at` and `started_at` are seconds since the epoch by the worker's clock.
    """

    worker: str
    deployment: str
    service: str
    version: str
    engine: str
    device: str
    machine: str
    address: str
    port: int
    pid: int
    state: WorkerState
    reason: str = ""
    busy: float = 0.0
    in_flight: int = 0
    slots: int = 1
    queue_depth: int = 0
    abilities: tuple[str, ...] = ()
    counters: Counters = Counters()
    ttft: Latency | None = None
    tpot: Latency | None = None
    started_at: float
    at: float

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; `from_dict` is its inverse."""
        return dataclasses.asdict(self) | {"state": str(self.state), "abilities": list(self.abilities)}

    @classmethod
    def from_dict(cls, data: object) -> Self:
        """Raises ProtocolError naming the first field that is missing or wrong."""
        read = _Reader(data, "heartbeat")
        return cls(
            worker=read.text("worker", pattern=_NAME),
            deployment=read.text("deployment", pattern=_NAME),
            service=read.text("service", pattern=_NAME),
            version=read.text("version", pattern=_LABEL),
            engine=read.text("engine", pattern=_NAME),
            device=read.text("device"),
            machine=read.text("machine"),
            address=read.text("address"),
            port=read.whole("port", low=1, high=65_535),
            pid=read.whole("pid", low=1),
            state=read.state("state"),
            reason=read.text("reason", default="", longest=2_000),
            busy=read.number("busy", high=1.0),
            in_flight=read.whole("in_flight"),
            slots=read.whole("slots", low=1),
            queue_depth=read.whole("queue_depth"),
            abilities=read.abilities("abilities"),
            counters=read.counters("counters"),
            ttft=read.latency("ttft"),
            tpot=read.latency("tpot"),
            started_at=read.number("started_at"),
            at=read.number("at"),
        )


def encode_batch(heartbeats: Iterable[Heartbeat]) -> bytes:
    return json.dumps({"workers": [beat.to_dict() for beat in heartbeats]}, separators=(",", ":")).encode()


def decode_batch(body: bytes | str) -> tuple[Heartbeat, ...]:
    """The heartbeats of one POST. Raises ProtocolError: one faulty heartbeat refuses the batch."""
    try:
        document = json.loads(body, parse_constant=_no_constant)
    except ValueError as error:
        raise ProtocolError(f"the batch is not JSON: {error}") from None
    return heartbeats_of(document)


def heartbeats_of(document: object) -> tuple[Heartbeat, ...]:
    """As `decode_batch`, for a body that was parsed already."""
    workers = document.get("workers") if isinstance(document, Mapping) else None
    if not isinstance(workers, list):
        raise ProtocolError('a batch is an object {"workers": [heartbeat, ...]}')
    if len(workers) > MAX_WORKERS_PER_BATCH:
        raise ProtocolError(
            f"a batch carries at most {MAX_WORKERS_PER_BATCH} workers, this one {len(workers)}"
        )
    beats = []
    for index, entry in enumerate(workers):
        try:
            beats.append(Heartbeat.from_dict(entry))
        except ProtocolError as error:
            raise ProtocolError(f"workers[{index}]: {error}") from None
    return tuple(beats)


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number of JSON")


class _Reader:
    """Reads typed fields out of parsed JSON; every refusal names the field and what it should be."""

    def __init__(self, data: object, what: str) -> None:
        if not isinstance(data, Mapping):
            raise ProtocolError(f"{what} must be an object")
        self._data = data

    def _take(self, key: str, kind: type | tuple[type, ...], words: str) -> Any:
        if key not in self._data:
            raise ProtocolError(f"{key} is missing")
        value = self._data[key]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise ProtocolError(f"{key} must be {words}")
        return value

    def text(
        self,
        key: str,
        *,
        pattern: re.Pattern[str] | None = None,
        default: str | None = None,
        longest: int = 400,
    ) -> str:
        if default is not None and key not in self._data:
            return default
        value: str = self._take(key, str, "text")
        if len(value) > longest:
            raise ProtocolError(f"{key} must have at most {longest} characters")
        if pattern is not None and not pattern.fullmatch(value):
            raise ProtocolError(f"{key} must match {pattern.pattern}")
        return value

    def whole(self, key: str, *, low: int = 0, high: int = 2**53) -> int:
        value: int = self._take(key, int, "a whole number")
        if not low <= value <= high:
            raise ProtocolError(f"{key} must be from {low} to {high}")
        return value

    def number(self, key: str, *, high: float = math.inf) -> float:
        value = float(self._take(key, (int, float), "a number"))
        if not (0 <= value <= high and math.isfinite(value)):
            raise ProtocolError(f"{key} must be from 0 to {high:g}")
        return value

    def state(self, key: str) -> WorkerState:
        value = self.text(key)
        if value not in set(WorkerState):
            raise ProtocolError(f"{key} must be one of {', '.join(WorkerState)}")
        return WorkerState(value)

    def abilities(self, key: str) -> tuple[str, ...]:
        values = self._take(key, list, "a list of text")
        if len(values) > 64 or not all(
            isinstance(value, str) and _ABILITY.fullmatch(value) for value in values
        ):
            raise ProtocolError(f"{key} must be at most 64 names that match {_ABILITY.pattern}")
        return tuple(values)

    def counters(self, key: str) -> Counters:
        read = _Reader(self._take(key, Mapping, "an object"), key)
        return Counters(
            **{
                entry.name: read.whole(entry.name)
                for entry in dataclasses.fields(Counters)
                if entry.name in read._data
            }
        )

    def latency(self, key: str) -> Latency | None:
        if self._data.get(key) is None:
            return None
        read = _Reader(self._take(key, Mapping, "an object or null"), key)
        return Latency(p50_ms=read.number("p50_ms"), p95_ms=read.number("p95_ms"), count=read.whole("count"))


@dataclass(frozen=True, kw_only=True)
class WorkerCommand:
    """How one worker is started. `argv()` builds the command line, `parse()` reads it back.

    The process should be given `WORKER_ENVIRONMENT` on top of its environment. It exits 0 after a drain
    (SIGTERM or SIGINT), 1 when its engine failed, 2 when the command is wrong, 3 when another program has
    its port: the same command on another port may succeed.
    A drain takes at most `settle_seconds + grace_seconds`; a second signal ends it at once.
    """

    model_dir: Annotated[Path, "directory of the version's files, in Hugging Face layout"]
    name: Annotated[str, "name of this worker, unique in the fleet and kept across restarts"]
    deployment: Annotated[str, "id of the deployment that it belongs to"]
    service: Annotated[str, "service that it serves"]
    version_label: Annotated[str, "MODEL:VERSION that it serves"]
    engine: Annotated[str, f"one of {', '.join(ENGINES)}"] = "transformers"
    host: Annotated[str, "address to listen on"] = "127.0.0.1"
    port: Annotated[int, "port to listen on; 0 takes a free one"] = 0
    address: Annotated[str, "address under which the gateway reaches it; empty: the host"] = ""
    machine: Annotated[str, "name of the machine; empty: the host name"] = ""
    slots: Annotated[int, "requests that are worked on at the same time"] = 4
    queue_limit: Annotated[
        int, "requests that may wait for a slot; more are answered 429 (twice as many where a worker died)"
    ] = 32
    device: Annotated[str, f"one of {', '.join(DEVICES)}"] = "auto"
    settings: Annotated[Mapping[str, Any], "engine settings as a JSON object"] = field(default_factory=dict)
    abilities: Annotated[tuple[str, ...], "comma-separated names of what it can do"] = ("chat", "completions")
    heartbeat_url: Annotated[str, "where heartbeats are POSTed; empty: nowhere"] = ""
    heartbeat_token_file: Annotated[str, "file that holds the bearer token for heartbeats"] = ""
    settle_seconds: Annotated[float, "after SIGTERM, how long it still takes new requests"] = 1.0
    grace_seconds: Annotated[float, "after that, how long requests in flight may take"] = 30.0
    linger_seconds: Annotated[float, "how long a worker whose engine failed stays to say why"] = 60.0
    exit_with_parent: Annotated[bool, "drain when the parent process dies (Linux)"] = False

    def __post_init__(self) -> None:
        """Raises ProtocolError naming the option that is wrong."""
        for key in ("name", "deployment", "service"):
            if not _NAME.fullmatch(getattr(self, key)):
                raise ProtocolError(f"{_flag(key)} must match {_NAME.pattern}")
        if not _LABEL.fullmatch(self.version_label):
            raise ProtocolError("--version-label must be MODEL:VERSION")
        if self.engine not in ENGINES:
            raise ProtocolError(f"--engine must be one of {', '.join(ENGINES)}")
        if self.device not in DEVICES:
            raise ProtocolError(f"--device must be one of {', '.join(DEVICES)}")
        for key, low, high in (("port", 0, 65_535), ("slots", 1, 4_096), ("queue_limit", 0, 100_000)):
            if not low <= getattr(self, key) <= high:
                raise ProtocolError(f"{_flag(key)} must be from {low} to {high}")
        for key in ("settle_seconds", "grace_seconds", "linger_seconds"):
            if not 0 <= getattr(self, key) <= 86_400:
                raise ProtocolError(f"{_flag(key)} must be from 0 to 86400")
        if not all(_ABILITY.fullmatch(ability) for ability in self.abilities):
            raise ProtocolError(f"--abilities must be names that match {_ABILITY.pattern}")
        if self.heartbeat_url and not self.heartbeat_url.startswith(("http://", "https://")):
            raise ProtocolError("--heartbeat-url must start with http:// or https://")

    def argv(self, python: str = sys.executable) -> list[str]:
        """The command line; options that have their default are left out."""
        arguments = [python, "-m", "serving.worker"]
        for option in dataclasses.fields(self):
            value = getattr(self, option.name)
            if option.default_factory is not dataclasses.MISSING:
                default: Any = option.default_factory()
            else:
                default = option.default
            if value == default:
                continue
            if isinstance(value, bool):
                arguments.append(_flag(option.name))
            elif isinstance(value, Mapping):
                arguments.append(f"{_flag(option.name)}={json.dumps(dict(value), sort_keys=True)}")
            elif isinstance(value, tuple):
                arguments.append(f"{_flag(option.name)}={','.join(value)}")
            else:
                arguments.append(f"{_flag(option.name)}={value}")
        return arguments

    @classmethod
    def parse(cls, arguments: Sequence[str]) -> Self:
        """The command of `arguments` (without the program). Raises ProtocolError; `--help` exits 0."""
        parser = _Parser(
            prog="python -m serving.worker",
            description="Serves one model version over HTTP.",
            allow_abbrev=False,
        )
        hints = get_type_hints(cls, include_extras=True)
        for option in dataclasses.fields(cls):
            flag, kind, text = _flag(option.name), *get_args(hints[option.name])
            if kind is bool:
                parser.add_argument(flag, action="store_true", help=text)
                continue
            required = option.default is dataclasses.MISSING and option.default_factory is dataclasses.MISSING
            parser.add_argument(
                flag,
                required=required,
                default=argparse.SUPPRESS,
                type=_READERS.get(option.name, kind),
                metavar=option.name.rpartition("_")[2].upper(),
                help=text,
            )
        return cls(**vars(parser.parse_args(arguments)))


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        raise ProtocolError(f"{message} (see python -m serving.worker --help)")


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _settings(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError("must be a JSON object")
    return value


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


_READERS: Mapping[str, Any] = {"settings": _settings, "abilities": _names}
