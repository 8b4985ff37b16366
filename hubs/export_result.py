"""What every export has in common, wherever it goes: how it ends, and that what it sends stays meanwhile."""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

from hubs.backends.base import HubError, HubUnreachable, RateLimited
from model_store.backends.base import Staging
from model_store.errors import BlobMissing
from model_store.file_manifest import ManifestFile
from model_store.paths import printable

CONNECTIONS = 4


@dataclass(frozen=True, slots=True)
class ExportResult:
    """The end of an export.

    `sent`: `commit` holds the files. `failed`: `reason` says why. `interrupted`: the hub sent nothing for too
    long.
    """

    outcome: Literal["sent", "failed", "interrupted"]
    reason: str = ""
    commit: str = ""
    was_there: bool = False
    """The repository held all of it before."""
    sent_bytes: int = 0
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "ExportResult":
        """Read a result that any release of the program may have written; unknown fields are ignored."""
        known = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in data.items() if name in known})


def ended(run: Callable[[], ExportResult]) -> ExportResult:
    """Run an export and turn every failure into its result."""
    began = time.monotonic()
    try:
        result = run()
    except (HubUnreachable, RateLimited) as error:
        result = ExportResult("interrupted", reason=f"{error} What the hub has got need not be sent again.")
    except (HubError, BlobMissing) as error:
        result = ExportResult("failed", reason=str(error))
    except OSError as error:
        result = ExportResult("failed", reason=f"The system says: {error.strerror or error}.")
    return replace(result, seconds=round(time.monotonic() - began, 3))


def hold(staging: Staging, files: Sequence[ManifestFile]) -> None:
    """Keep the contents from being collected, whatever becomes of the version. Raises BlobMissing."""
    for file in files:
        if not staging.hold(file.sha256, file.size):
            raise BlobMissing(f"The store has lost {printable(file.path)}. Check the store, then try again.")
