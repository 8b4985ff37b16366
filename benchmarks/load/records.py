"""What is kept of each request, as a line of JSON: times and counts, never a prompt or an answer."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import IO, Any

RECORDS_FILE = "records.jsonl.gz"
"""Name of a run's records, in the directory of its job and in the model store."""


@dataclass(slots=True)
class RequestRecord:
    """Times are seconds since the window's beginning by one monotonic clock; None: it never came."""

    window: int
    number: int
    scheduled: float
    sent: float = 0.0
    first: float | None = None
    """The first token that is not empty."""
    last: float | None = None
    ended: float = 0.0
    gaps_ms: list[float] = field(default_factory=list)
    """Between the chunks with tokens, in order."""
    asked_input: int = 0
    asked_output: int = 0
    input_tokens: int | None = None
    """As the server counts them; None: it did not say."""
    output_tokens: int | None = None
    first_tokens: int | None = None
    """Tokens of the first chunk, where the server tells that in each."""
    chunks: int = 0
    error: str = ""
    """`http 503`, `timeout`, `connect`, `broken`, `cancelled`; empty: it was answered in whole."""

    @property
    def is_good(self) -> bool:
        return not self.error

    def as_line(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))


@dataclass(slots=True)
class WindowRecord:
    """A window of measuring: a rate, how long, and what the generator knows of it."""

    window: int
    rate: float
    seconds: float
    """By the schedule; 0 of a closed loop without an end by time: as long as it took."""
    began_at: float
    """Wall clock, seconds since 1970: by it system metrics are joined."""
    took: float = 0.0
    client_cpu: float = 0.0
    """Share of its cores that the generator used."""
    prefix_hits: float | None = None
    """Share of prompt tokens that the server's prefix cache had; None: it does not count."""
    restarts: int = 0
    requests: list[RequestRecord] = field(default_factory=list)

    def head(self) -> dict[str, Any]:
        found = asdict(self)
        del found["requests"]
        return found


def write(windows: Iterable[WindowRecord], file: IO[str], system: Iterable[Mapping[str, Any]] = ()) -> None:
    """Write windows with their requests, and `{at, values}` of the system each second."""
    for window in windows:
        file.write(json.dumps({"kind": "window", **window.head()}) + "\n")
        for request in window.requests:
            file.write(request.as_line() + "\n")
    for sample in system:
        file.write(json.dumps({"kind": "system", **sample}) + "\n")


def read(lines: Iterable[str]) -> list[WindowRecord]:
    """The windows that `write` wrote. Raises ValueError."""
    found: list[WindowRecord] = []
    for told in map(_object, lines):
        kind = told.pop("kind", "request")
        if kind == "window":
            found.append(WindowRecord(**told))
        elif kind == "request":
            found[-1].requests.append(RequestRecord(**told))
    return found


def _object(line: str) -> dict[str, Any]:
    told = json.loads(line)
    if not isinstance(told, Mapping):
        raise ValueError(f"not a record: {line[:80]}")
    return dict(told)
