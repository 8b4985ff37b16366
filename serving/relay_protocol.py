"""What the relay of a cluster and the control plane tell each other. Standard library only.

The relay (`serving.relay`) POSTs one `RelayReport` a second to `/api/v1/relay-reports/`, with the token of
its cluster, and is answered with a `RelayAnswer`: who may report to it, and which servers it is to read. Both
are left out of an answer while the relay knows them already.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self

from serving.engines.registry import ENGINES
from serving.fields import Fields, ProtocolError
from serving.protocol import MAX_WORKERS_PER_REPORT, Heartbeat, WorkerState

MOST_MACHINES = 5_000
MOST_WORKERS = 3_000
"""Of one relay."""
SCRAPED = tuple(name for name, spec in ENGINES.items() if spec.metrics is not None)
"""Servers whose own metrics are read, for want of a heartbeat; of `openai` those whose service says so."""
METRICS = (
    "running", "waiting", "worked_seconds", "requests", "errors", "refused", "prompt_tokens",
    "completion_tokens", "ttft", "tpot",
)  # fmt: skip
"""What a service may name the metrics of, where its engine is `openai`. `ttft` and `tpot` are histograms in
seconds; `worked_seconds` is the time that requests were worked on, summed; `running` and `waiting` are
gauges."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineReport:
    """The last heartbeats of one machine's workers."""

    machine: str
    """Name of the machine in the cluster; empty: they did not say."""
    workers: Sequence[Any]
    """Heartbeats, parsed one by one, so that a faulty one does not cost the others."""

    @classmethod
    def from_dict(cls, data: object) -> Self:
        read = Fields(data, "a machine's report")
        workers = read.items("workers", most=MAX_WORKERS_PER_REPORT)
        return cls(machine=read.text("machine"), workers=workers)


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayReport:
    """The whole state, as in `NodeReport`: one that is lost costs nothing."""

    session: str
    sequence: int
    known: str = ""
    """Revision of the answer's `reporters` and `targets` that the relay has; empty: none."""
    machines: Sequence[MachineReport] = ()

    def encode(self) -> bytes:
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @classmethod
    def from_dict(cls, data: object) -> Self:
        read = Fields(data, "a relay's report")
        return cls(
            session=read.text("session"),
            sequence=read.whole("sequence", low=1),
            known=read.text("known", default=""),
            machines=[MachineReport.from_dict(one) for one in read.items("machines", most=MOST_MACHINES)],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrapeTarget:
    """A server without a heartbeat of its own, to be read at `http://address:port` + `path`."""

    worker: str
    deployment: str
    service: str
    version: str
    engine: str
    """One of `SCRAPED`."""
    machine: str
    address: str
    port: int
    slots: int
    path: str = "/metrics"
    names: Mapping[str, str] = field(default_factory=dict)
    """Of its metrics, by `METRICS`, where the engine is `openai`; none: those of OpenTelemetry."""

    @classmethod
    def from_dict(cls, data: object) -> Self:
        read = Fields(data, "a target")
        apart = ("port", "slots", "names")
        texts = {one.name: read.text(one.name) for one in fields(cls) if one.name not in apart}
        names = read.data.get("names", {})
        if not isinstance(names, dict) or not all(isinstance(one, str) for one in names.values()):
            raise ProtocolError("names must be an object of names of metrics")
        if texts["engine"] not in SCRAPED:
            raise ProtocolError(f"engine must be one of {', '.join(SCRAPED)}")
        return cls(
            **texts,
            names=names,
            port=read.whole("port", low=1, high=65_535),
            slots=read.whole("slots", low=1),
        )

    def heartbeat(self, **said: Any) -> Heartbeat:
        """Return what the server would say of itself. `said`: fields of Heartbeat that were read of it."""
        who: dict[str, Any] = {name: getattr(self, name) for name in _OF_TARGET}
        return Heartbeat(**who | {"device": "", "pid": 1, "state": WorkerState.READY} | said)


_OF_TARGET = ("worker", "deployment", "service", "version", "engine", "machine", "address", "port", "slots")


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayAnswer:
    revision: str
    reporters: Mapping[str, str] | None = None
    """Deployments by the SHA-256, in hex, of the tokens that report them; None: as known."""
    targets: Sequence[ScrapeTarget] | None = None
    """None: as known."""
    refused: Sequence[Mapping[str, str]] = field(default_factory=tuple)
    """`{worker, reason}` each."""

    @classmethod
    def decode(cls, body: bytes) -> Self:
        """Raises ProtocolError."""
        try:
            read = Fields(json.loads(body), "an answer")
        except ValueError as error:
            raise ProtocolError(f"an answer is JSON: {error}") from None
        reporters, targets = read.data.get("reporters"), read.data.get("targets")
        return cls(
            revision=read.text("revision"),
            reporters=None if reporters is None else {str(key): str(of) for key, of in reporters.items()},
            targets=None if targets is None else [ScrapeTarget.from_dict(one) for one in targets],
            refused=read.items("refused", most=MOST_WORKERS),
        )
