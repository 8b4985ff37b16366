"""What a process that works in an intake is told, as JSON on its command line."""

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from models_registry.hub.source import RepositorySource
from models_registry.hub.target import RepositoryTarget, SlipwayTarget
from models_registry.importing.allowance import Allowance
from models_registry.importing.directory import DirectorySource
from models_registry.importing.upload import UploadSource

STARTED, PROGRESS, RESULT = "started", "progress", "result"
"""Notes that it leaves in its intake."""


@dataclass(frozen=True, slots=True)
class WholeStore:
    """What a check reads, no faster than so."""

    bytes_per_second: int


Source = DirectorySource | RepositorySource | RepositoryTarget | SlipwayTarget | WholeStore | UploadSource
_MODULES: dict[type[Any], str] = {
    DirectorySource: "models_registry.processes.directory_import",
    RepositorySource: "models_registry.processes.hub_download",
    RepositoryTarget: "models_registry.processes.export",
    SlipwayTarget: "models_registry.processes.export",
    WholeStore: "models_registry.processes.store_scrub",
    UploadSource: "models_registry.processes.upload_import",
}
_KINDS = {kind.__name__: kind for kind in _MODULES}


@dataclass(frozen=True, slots=True)
class Job:
    """`attempt` marks the result, so that one of an earlier try is never taken for it. `guardian_*`: see
    `guardian.present`.
    """

    store: str
    key: str
    attempt: int
    source: Source
    guardian_pid: int
    guardian_started: float
    allowance: Allowance | None = None
    """What the version's team may add; None: whatever there is room for."""
    secret: str = field(default="", repr=False)
    """For the hub. It goes through a pipe: other people's processes can read a command line."""

    def as_json(self) -> str:
        """Without the secret."""
        told = {name: value for name, value in asdict(self).items() if name != "secret"}
        return json.dumps({**told, "kind": type(self.source).__name__})

    @classmethod
    def from_json(cls, text: str, *, secret: str = "") -> "Job":
        data = json.loads(text)
        source: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in data.pop("source").items()
        }
        kind = _KINDS[data.pop("kind")]
        told = data.pop("allowance")
        allowance = Allowance(**told) if told else None
        return cls(source=kind(**source), allowance=allowance, secret=secret, **data)

    @property
    def module(self) -> str:
        """What `python -m` runs for it."""
        return _MODULES[type(self.source)]
