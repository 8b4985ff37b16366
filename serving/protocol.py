"""What the control plane and a model worker tell each other: how a worker is started, and what it reports.

Standard library only. This is the one module of `serving` that the control plane imports.

A worker POSTs its heartbeat as JSON to its machine's agent (`serving.node_agent`) every second. The agent
POSTs one `NodeReport` a second for all of them (`Content-Type: application/json`, `Authorization: Bearer
<token of the node>`) to `/api/v1/node-reports/`; any 2xx answer is an acknowledgement. A worker in a pod
POSTs its heartbeat to `/api/v1/heartbeats/` itself, with the token of its deployment. A reader ignores keys
that it does not know, so that workers, agents and control plane may be of different ages.
"""

import argparse
import dataclasses
import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Self, get_args, get_type_hints

from serving.fields import Fields, ProtocolError

HEARTBEAT_SECONDS = 1.0
BUSY_WINDOW_SECONDS = 10.0
LOST_AFTER_SECONDS = 5.0
MAX_WORKERS_PER_REPORT = 500
MAX_DEVICES_PER_REPORT = 128
MAX_READINGS_PER_DEVICE = 64
AGENT_SOCKET = "node.sock"
"""Name of the Unix socket on which a machine's agent hears its workers, in the data plane's run directory."""
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
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,252}")
_SESSION = re.compile(r"[A-Za-z0-9-]{8,64}")
_DEVICE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,99}")
_READING = re.compile(r"[a-z][a-z0-9_]{0,63}")
_ABILITY = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


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
        parts = {"counters": self.counters, "ttft": self.ttft, "tpot": self.tpot}
        shown = {name: getattr(self, name) for name in _HEARTBEAT_FIELDS}
        shown |= {name: dataclasses.asdict(part) if part else None for name, part in parts.items()}
        return shown | {"state": str(self.state), "abilities": list(self.abilities)}

    def encode(self) -> bytes:
        return json.dumps(self.to_dict(), separators=(",", ":")).encode()

    @classmethod
    def from_dict(cls, data: object) -> Self:
        """Raises ProtocolError naming the first field that is missing or wrong."""
        read = Fields(data, "heartbeat")
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
            state=read.word("state", WorkerState),
            reason=read.text("reason", default="", longest=2_000),
            busy=read.number("busy", high=1.0),
            in_flight=read.whole("in_flight"),
            slots=read.whole("slots", low=1),
            queue_depth=read.whole("queue_depth"),
            abilities=read.names("abilities", pattern=_ABILITY, most=64),
            counters=_counters(read, "counters"),
            ttft=_latency(read, "ttft"),
            tpot=_latency(read, "tpot"),
            started_at=read.number("started_at"),
            at=read.number("at"),
        )


_HEARTBEAT_FIELDS = tuple(one.name for one in dataclasses.fields(Heartbeat))


def decode_heartbeat(body: bytes | str) -> Heartbeat:
    """What a worker POSTs. Raises ProtocolError."""
    try:
        document = json.loads(body, parse_constant=_no_constant)
    except ValueError as error:
        raise ProtocolError(f"a heartbeat is JSON: {error}") from None
    return Heartbeat.from_dict(document)


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A GPU, or another device with readings, as the driver knows it."""

    uuid: str
    readings: Mapping[str, float] = field(default_factory=dict)
    """By name with its unit at the end: `temperature_celsius`, `memory_used_bytes`, `utilization_ratio`."""

    def to_dict(self) -> dict[str, Any]:
        return {"uuid": self.uuid, "readings": dict(self.readings)}

    @classmethod
    def from_dict(cls, data: object) -> Self:
        read = Fields(data, "device")
        readings = Fields(read.take("readings", Mapping, "an object of numbers"), "readings")
        if len(readings.data) > MAX_READINGS_PER_DEVICE:
            raise ProtocolError(f"readings must be at most {MAX_READINGS_PER_DEVICE}")
        names = [str(name) for name in readings.data]
        if wrong := next((name for name in names if not _READING.fullmatch(name)), None):
            raise ProtocolError(f"readings: {wrong[:80]!r} must match {_READING.pattern}")
        return cls(
            uuid=read.text("uuid", pattern=_DEVICE), readings={name: readings.number(name) for name in names}
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReport:
    """Everything that one machine has to say at one moment, in one message.

    `node` is the uid that the cluster gives the machine. `session` is another one after each start of whoever
    reports, `sequence` rises with each message of a session: a message that is not newer than what came is
    refused. `workers` are all those that the reporter has heard of in the last seconds, `devices` all that it
    can read. Entries are parsed one by one (`Heartbeat.from_dict`, `Device.from_dict`), so that a faulty one
    does not cost the others.
    """

    node: str
    session: str
    sequence: int
    workers: Sequence[Any] = ()
    devices: Sequence[Any] = ()

    def encode(self) -> bytes:
        document = {one.name: getattr(self, one.name) for one in dataclasses.fields(self)}
        return json.dumps(document, separators=(",", ":")).encode()

    @classmethod
    def from_dict(cls, data: object) -> Self:
        read = Fields(data, "a node report")
        return cls(
            node=read.text("node", pattern=_NODE),
            session=read.text("session", pattern=_SESSION),
            sequence=read.whole("sequence", low=1),
            workers=read.items("workers", most=MAX_WORKERS_PER_REPORT),
            devices=read.items("devices", most=MAX_DEVICES_PER_REPORT),
        )


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number of JSON")


def _counters(read: Fields, key: str) -> Counters:
    given = Fields(read.take(key, Mapping, "an object"), key)
    known = (entry.name for entry in dataclasses.fields(Counters) if entry.name in given.data)
    return Counters(**{name: given.whole(name) for name in known})


def _latency(read: Fields, key: str) -> Latency | None:
    if read.data.get(key) is None:
        return None
    given = Fields(read.take(key, Mapping, "an object or null"), key)
    return Latency(p50_ms=given.number("p50_ms"), p95_ms=given.number("p95_ms"), count=given.whole("count"))


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
    heartbeat_url: Annotated[str, "where heartbeats are POSTed: http://..., unix:/path; empty: nowhere"] = ""
    heartbeat_token_file: Annotated[str, "file with the token that heartbeats are sent with; empty: none"] = (
        ""
    )
    settle_seconds: Annotated[float, "after SIGTERM, how long it still takes new requests"] = 1.0
    grace_seconds: Annotated[float, "after that, how long requests in flight may take"] = 30.0
    nodes: Annotated[int, "machines that it spans"] = 1
    node_rank: Annotated[int, "of a follower: which of them this is, from 1 on"] = 0
    master_address: Annotated[str, "of the machine of the worker itself, where it spans several"] = ""
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
        for key, low, high in (
            ("port", 0, 65_535),
            ("slots", 1, 4_096),
            ("queue_limit", 0, 100_000),
            ("nodes", 1, 4_096),
            ("node_rank", 0, max(0, self.nodes - 1)),
        ):
            if not low <= getattr(self, key) <= high:
                raise ProtocolError(f"{_flag(key)} must be from {low} to {high}")
        for key in ("settle_seconds", "grace_seconds", "linger_seconds"):
            if not 0 <= getattr(self, key) <= 86_400:
                raise ProtocolError(f"{_flag(key)} must be from 0 to 86400")
        if self.nodes > 1 and not self.master_address:
            raise ProtocolError("--master-address must say where the worker of these --nodes is")
        if not all(_ABILITY.fullmatch(ability) for ability in self.abilities):
            raise ProtocolError(f"--abilities must be names that match {_ABILITY.pattern}")
        if self.heartbeat_url and not self.heartbeat_url.startswith(("http://", "https://", "unix:/")):
            raise ProtocolError("--heartbeat-url must start with http://, https:// or unix:/")

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
