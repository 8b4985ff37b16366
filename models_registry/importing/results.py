"""How an import ends, as its process tells it."""

import errno
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from model_store.errors import FileRefused, StoreFull
from model_store.file_manifest import FileManifest, ManifestFile, manifest_of
from trust.formats.pickle_scan import PickleScan
from trust.formats.summary import ModelFacts
from trust.formats.warnings import FileWarning

MAX_REFUSALS = 50
GOES_ON = "It goes on by itself when there is room."
WHAT_TO_DO = "Mend what must not enter, or leave it out by an ignore pattern, and import again."
WHAT_TO_DO_ON_HUB = "Mend what must not enter, or leave it out by the patterns of the source, and sync again."

KEPT = "What has been fetched is kept."
"""Ends the reason of an interruption."""


@dataclass(frozen=True, slots=True)
class ImportResult:
    """The end of an import.

    `accepted`: the staging area holds `files`. `refused`: `refusals` say what must not enter. `failed`:
    `reason` says why; the same import may succeed later. `interrupted`: it may succeed later, and the
    contents of
    the staging area need not be fetched again.
    """

    outcome: Literal["accepted", "refused", "failed", "interrupted"]
    reason: str = ""
    cause: str = ""
    """Of a failure that programs may want to tell from others: one of `states.Cause`."""
    files: tuple[ManifestFile, ...] = ()
    refusals: tuple[tuple[str, str], ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()
    code: tuple[tuple[str, str], ...] = ()
    """Files that carry or name code, and how: it keeps the version from being served, see `exemptions`."""
    warnings: tuple[FileWarning, ...] = ()
    pickles: tuple[PickleScan, ...] = ()
    facts: ModelFacts = field(default_factory=ModelFacts)
    copied_bytes: int = 0
    seconds: float = 0.0
    commit: str = ""
    """Of the repository that it came from."""
    needed_bytes: int = 0
    """What must be free on the disk before it can go on."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "ImportResult":
        """Raises KeyError, TypeError for what `as_json` did not make."""
        return cls(
            **{
                **data,
                "files": tuple(ManifestFile(**file) for file in data["files"]),
                "refusals": tuple((path, reason) for path, reason in data["refusals"]),
                "skipped": tuple((path, reason) for path, reason in data["skipped"]),
                "code": tuple((path, how) for path, how in data["code"]),
                "warnings": tuple(FileWarning(**warned) for warned in data["warnings"]),
                "pickles": tuple(map(PickleScan.from_json, data.get("pickles", ()))),
                "facts": ModelFacts(**{**data["facts"], "notes": tuple(data["facts"]["notes"])}),
            }
        )

    @property
    def manifest(self) -> FileManifest:
        return manifest_of(self.files)


def waits_for_room(error: StoreFull) -> ImportResult:
    """Interrupted until the disk has what it lacks; then it goes on by itself."""
    reason = f"{error} {GOES_ON}"
    return ImportResult("interrupted", reason=reason, cause=error.cause, needed_bytes=error.needed_bytes)


def stopped_by_the_system(error: OSError) -> ImportResult:
    """Failed, but for a disk without room: that passes."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return ImportResult("interrupted", reason=f"The disk is full. {GOES_ON}", cause=StoreFull.cause)
    where = f" ({error.filename})" if error.filename else ""
    return ImportResult("failed", reason=f"The system says: {error.strerror or error}{where}.")


def refused(refusals: Sequence[FileRefused], *, what_to_do: str = WHAT_TO_DO) -> ImportResult:
    """The result that names them, the first 50."""
    named = tuple((refusal.path, refusal.reason) for refusal in refusals[:MAX_REFUSALS])
    others = len(refusals) - 1
    more = f"{others} more {'is' if others == 1 else 'are'} refused. " if others else ""
    return ImportResult("refused", reason=f"{refusals[0]}. {more}{what_to_do}", refusals=named)
