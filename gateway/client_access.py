"""Who may use which service through a gateway, and how much: keys of clients. Pure."""

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

KEY_HEADER = "x-slipway-key"
"""Beside `Authorization: Bearer`, for services whose own code reads that one."""
KEY_PREFIX = "slk_"
SHOWN_CHARACTERS = 12
"""Of a key's text: enough to find it in a list, too few to guess it."""
NO_KEY = "0"
"""Counts of requests without a key stand under it."""


def new_key_text() -> str:
    """Return a key of about 256 bits: too many to guess, so that a plain hash protects it."""
    return KEY_PREFIX + secrets.token_urlsafe(32)


def key_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class AllowedKey:
    """A key as a gateway knows it."""

    id: str
    """Under which its requests are counted."""
    hash: str
    """SHA-256 of its text, in hexadecimal digits."""
    services: frozenset[str]
    """And names of abilities: the first part of their addresses."""
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    ends_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ClientAccess:
    keys: tuple[AllowedKey, ...] = ()
    demanded: frozenset[str] = frozenset()
    """Names of services and abilities that answer to nobody without a key."""


@dataclass(frozen=True, slots=True)
class ClientCounts:
    """Requests of one key to one target, cumulative since the gateway started."""

    requests: int = 0
    """Answered by a worker, or by the gateway for want of one."""
    errors: int = 0
    refused: int = 0
    """Refused for a limit of the key: no worker saw them."""
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def __add__(self, other: "ClientCounts") -> "ClientCounts":
        return ClientCounts(
            *(one + two for one, two in zip(self.as_numbers(), other.as_numbers(), strict=True))
        )

    def since(self, before: "ClientCounts | None") -> "ClientCounts":
        """Return what was counted after `before`; a reading cannot fall but by a race of two counters."""
        if before is None:
            return self
        pairs = zip(self.as_numbers(), before.as_numbers(), strict=True)
        return ClientCounts(*(max(late - early, 0) for late, early in pairs))

    def as_numbers(self) -> tuple[int, int, int, int, int]:
        return self.requests, self.errors, self.refused, self.prompt_tokens, self.completion_tokens


@dataclass(frozen=True, slots=True)
class ClientReading:
    """Counts of all keys at one moment."""

    epoch: str
    """Another one: the gateway started again, and all counts began at zero."""
    counts: Mapping[tuple[str, str], ClientCounts] = field(default_factory=dict)
    """By target and id of the key (`NO_KEY` for requests without one)."""


@dataclass(frozen=True, slots=True)
class ProcessCounts:
    """Counts of one process of a worker since it began."""

    target: str
    counts: ClientCounts


Processes = Mapping[str, ProcessCounts]
"""By a name that is another one after each start of the worker."""


def packed_processes(processes: Processes) -> dict[str, object]:
    """Return, as JSON, what workers counted where the gateway counts no tokens."""
    return {"processes": {name: [one.target, *one.counts.as_numbers()] for name, one in processes.items()}}


def unpacked_processes(document: Mapping[str, object]) -> Processes | None:
    """Return the counts that were packed; None: the gateway counts itself."""
    processes = document.get("processes")
    if not isinstance(processes, Mapping):
        return None
    return {
        name: ProcessCounts(target, ClientCounts(*numbers)) for name, (target, *numbers) in processes.items()
    }


def packed_clients(reading: ClientReading, targets: frozenset[str]) -> dict[str, object]:
    """Return the counts of these targets as JSON."""
    found: dict[str, dict[str, list[int]]] = {}
    for (target, key), counts in reading.counts.items():
        if target in targets:
            found.setdefault(target, {})[key] = list(counts.as_numbers())
    return {"epoch": reading.epoch, "targets": found} if found else {}


def unpacked_clients(document: Mapping[str, object]) -> ClientReading | None:
    """Return the counts that were packed; None: nobody counted by key."""
    targets = document.get("targets")
    if not isinstance(targets, Mapping):
        return None
    return ClientReading(
        str(document["epoch"]),
        {
            (target, key): ClientCounts(*numbers)
            for target, keys in targets.items()
            for key, numbers in keys.items()
        },
    )
