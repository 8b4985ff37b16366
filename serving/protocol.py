"""What model workers, and the agents of their machines, report to the control plane. Standard library only.

A worker POSTs its heartbeat as JSON to its machine's agent (`serving.node_agent`) every second. The agent
POSTs one `NodeReport` a second for all of them (`Content-Type: application/json`, `Authorization: Bearer
<token of the node>`) to `/api/v1/node-reports/`; any 2xx answer is an acknowledgement. A worker in a pod
POSTs its heartbeat to `/api/v1/heartbeats/` itself, with the token of its deployment. A reader ignores keys
that it does not know, so that workers, agents and control plane may be of different ages.
"""

import dataclasses
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

from serving.fields import Fields, ProtocolError, no_constant

HEARTBEAT_SECONDS = 1.0
BUSY_WINDOW_SECONDS = 10.0
LOST_AFTER_SECONDS = 5.0
MAX_WORKERS_PER_REPORT = 500
MAX_DEVICES_PER_REPORT = 128
MAX_READINGS_PER_DEVICE = 64
MAX_ADAPTERS = 64
"""LoRA adapters of a service."""
ADAPTERS_FILE = "adapters.json"
"""In pods, what names those to fetch, and those that have come."""
AGENT_SOCKET = "node.sock"
"""Name of the Unix socket on which a machine's agent hears its workers, in the data plane's run directory."""
CHOSEN_BY_HEADER = "x-slipway-chosen-by"
"""Whose choice the version of a request was, as the gateway says: `client`, or else its own by weight."""
PROFILE_PATH = "/torch-profile"
"""Where a worker takes a profile by torch, by POST; no gateway passes it on."""
KEEP_HEADER = "x-slipway-keep-answer"
"""Asks a worker to keep its answer for who has this key; the gateway alone says it."""
KEPT_PATH = "/kept-answers"
"""Where a worker tells the answers that it keeps, by POST; no gateway passes it on."""
PREFIX_HEADER = "x-forwarded-prefix"
"""What a gateway removed from the path of a request to a service with routes of its own."""
ATTEMPT_HEADER = "x-envoy-attempt-count"
OVERFLOW_HEADER = "x-slipway-overflow"
"""In a request: how many workers the gateway asks at most. In an answer: another one is to be asked."""
ENGINES_WITH_ROUTES = frozenset({"app"})
"""Their services declare their routes; the others have the API of their engine below `/v1`."""
TRUNCATED = "truncated"
"""Name of the indicator that workers of language models count by themselves: answers that ended at the limit
of their tokens."""
LATENCY_BOUNDS_MS: tuple[float, ...] = tuple(
    round(digit * 10**decade, 1)
    for decade in range(6)
    for digit in (1.0, 1.3, 1.6, 2.0, 2.5, 3.2, 4.0, 5.0, 6.3, 8.0)
    if digit * 10**decade <= 320_000
)
"""1 ms to 320 s in steps of about 1.26 (the R10 series of ISO 3). Two digits each, because Envoy keeps its
samples in bins of two digits: at these bounds its counts are exact, elsewhere it interpolates."""

LENGTH_BOUNDS: tuple[int, ...] = (
    1,
    *(length for power in range(1, 20) for length in (2**power, 3 * 2 ** (power - 1))),
)
"""Upper bounds of the bins in which prompts and answers are counted by their tokens: 1, 2, 3, 4, 6, 8, ..."""

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
LABEL = re.compile(r"[^\s:]{1,200}:[^\s:]{1,200}")
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,252}")
_SESSION = re.compile(r"[A-Za-z0-9-]{8,64}")
_DEVICE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,99}")
_READING = re.compile(r"[a-z][a-z0-9_]{0,63}")
ABILITY = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


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
class AdapterReport:
    """A LoRA adapter that a worker was told to load from a version of the registry."""

    name: str
    version: str
    problem: str = ""
    """Why it is not loaded; empty: it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A worker's report of itself, once a second.

    `worker` names the seat and survives restarts; `pid` and `started_at` tell its processes apart.
    `address`:`port` is where the gateway reaches it. `busy` (0..1) is the mean share of its slots at work
    over the last 10 s: for people, scaling and alarms. `in_flight / slots` is the load of this instant: for
    routing. `queue_depth` counts requests that wait for a slot. `code_runs`: as which user a team's own code
    runs, or why as no other than the worker's. `group`: `online` (serves requests) or `offline` (takes jobs);
    empty: its deployment has no groups. `jobs_running`: jobs in hand. `adapters`: those that its service has
    beside the version's own. `prompt_lengths`, `answer_lengths`: answered requests by their tokens, one count
    for each of LENGTH_BOUNDS and one for what is longer, as far as the last that is not 0, since the process
    started. `gpu_memory_mib`: GPU memory that it holds, None: not measured. `load_seconds`: that its files
    and engine took to load; None: they have not. `reason` says in words why the state is not `ready`. `at`
    and `started_at` are seconds since the epoch by the worker's clock.
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
    code_runs: str = ""
    group: str = ""
    jobs_running: int = 0
    adapters: tuple[AdapterReport, ...] = ()
    counters: Counters = Counters()
    ttft: Latency | None = None
    tpot: Latency | None = None
    prompt_lengths: tuple[int, ...] = ()
    answer_lengths: tuple[int, ...] = ()
    gpu_memory_mib: int | None = None
    load_seconds: float | None = None
    started_at: float
    at: float

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; `from_dict` is its inverse."""
        parts = {"counters": self.counters, "ttft": self.ttft, "tpot": self.tpot}
        shown = {name: getattr(self, name) for name in _HEARTBEAT_FIELDS}
        shown |= {name: dataclasses.asdict(part) if part else None for name, part in parts.items()}
        return (
            shown
            | {"state": str(self.state), "abilities": list(self.abilities)}
            | {"adapters": [dataclasses.asdict(one) for one in self.adapters]}
            | {"prompt_lengths": list(self.prompt_lengths), "answer_lengths": list(self.answer_lengths)}
        )

    def encode(self) -> bytes:
        return json.dumps(self.to_dict(), separators=(",", ":")).encode()

    @classmethod
    def from_dict(cls, data: object) -> Self:
        """Raises ProtocolError naming the first field that is missing or wrong."""
        values = validated_heartbeat(data)
        latencies = {name: Latency(**values[name]) if values[name] else None for name in ("ttft", "tpot")}
        return cls(
            **values
            | latencies
            | {name: tuple(values[name]) for name in ("abilities", "prompt_lengths", "answer_lengths")}
            | {"state": WorkerState(values["state"]), "counters": Counters(**values["counters"])}
            | {"adapters": tuple(AdapterReport(**one) for one in values["adapters"])}
        )


_HEARTBEAT_FIELDS = tuple(one.name for one in dataclasses.fields(Heartbeat))


_MISSING = object()


def validated_heartbeat(data: object, before: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return a heartbeat as `Heartbeat.to_dict` has it. Raises ProtocolError naming the first wrong field.

    `before`: what this gave for the same worker's last one, perhaps with keys of others, which stay. What has
    not changed since is not looked at again, which makes it several times as fast.
    """
    read = Fields(data, "heartbeat")
    if before is None:
        return {name: value_of(read, name) for name, value_of in _READERS.items()}
    given = read.data
    changed = {
        name: value_of(read, name)
        for name, value_of in _READERS.items()
        if name not in before or given.get(name, _MISSING) != before[name]
    }
    return {**before, **changed}


def decode_heartbeat(body: bytes | str) -> Heartbeat:
    """Read what a worker POSTs. Raises ProtocolError."""
    try:
        document = json.loads(body, parse_constant=no_constant)
    except ValueError as error:
        raise ProtocolError(f"a heartbeat is JSON: {error}") from None
    return Heartbeat.from_dict(document)


HOST_DEVICE = "host"
"""The `uuid` by which a machine itself stands among its devices: it has the reading `memory_used_ratio`."""


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


def _adapters(read: Fields, key: str) -> list[dict[str, Any]]:
    entries = read.items(key, most=MAX_ADAPTERS) if key in read.data else []
    return [
        {
            "name": one.text("name", pattern=NAME),
            "version": one.text("version", pattern=LABEL),
            "problem": one.text("problem", default="", longest=500),
        }
        for one in (Fields(entry, "an adapter") for entry in entries)
    ]


_COUNTERS = tuple(one.name for one in dataclasses.fields(Counters))


def _counters(read: Fields, key: str) -> dict[str, int]:
    given = Fields(read.take(key, Mapping, "an object"), key)
    return {name: given.whole(name) if name in given.data else 0 for name in _COUNTERS}


def _latency(read: Fields, key: str) -> dict[str, Any] | None:
    if read.data.get(key) is None:
        return None
    given = Fields(read.take(key, Mapping, "an object or null"), key)
    return {
        "p50_ms": given.number("p50_ms"),
        "p95_ms": given.number("p95_ms"),
        "count": given.whole("count"),
    }


def _text(**limits: Any) -> Callable[[Fields, str], Any]:
    return lambda read, key: read.text(key, **limits)


def _whole(**limits: Any) -> Callable[[Fields, str], Any]:
    return lambda read, key: read.whole(key, **limits)


def _number(**limits: Any) -> Callable[[Fields, str], Any]:
    return lambda read, key: read.number(key, **limits)


def _lengths(read: Fields, key: str) -> list[int]:
    return list(read.counts(key, most=len(LENGTH_BOUNDS) + 1))


_READERS: Mapping[str, Callable[[Fields, str], Any]] = {
    "worker": _text(pattern=NAME),
    "deployment": _text(pattern=NAME),
    "service": _text(pattern=NAME),
    "version": _text(pattern=LABEL),
    "engine": _text(pattern=NAME),
    "device": _text(),
    "machine": _text(),
    "address": _text(),
    "port": _whole(low=1, high=65_535),
    "pid": _whole(low=1),
    "state": lambda read, key: str(read.word(key, WorkerState)),
    "reason": _text(default="", longest=2_000),
    "busy": _number(high=1.0),
    "in_flight": _whole(),
    "slots": _whole(low=1),
    "queue_depth": _whole(),
    "abilities": lambda read, key: list(read.names(key, pattern=ABILITY, most=64)),
    "code_runs": _text(default="", longest=500),
    "group": _text(default="", longest=20),
    "jobs_running": lambda read, key: read.whole(key) if key in read.data else 0,
    "adapters": _adapters,
    "counters": _counters,
    "ttft": _latency,
    "tpot": _latency,
    "prompt_lengths": _lengths,
    "answer_lengths": _lengths,
    "gpu_memory_mib": lambda read, key: None if read.data.get(key) is None else read.whole(key),
    "load_seconds": lambda read, key: read.number(key) if read.data.get(key) is not None else None,
    "started_at": _number(),
    "at": _number(),
}
"""A heartbeat's fields: how each is read, as JSON has it."""
