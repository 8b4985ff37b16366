"""What the files are that a staging area holds, one by one and together: this judgement counts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from model_store.backends.base import Staging
from model_store.file_manifest import ManifestFile, manifest_of
from models_registry.importing.results import WHAT_TO_DO, ImportResult, refused
from trust.formats import code, recognised
from trust.formats.identification import IdentifiedFile, check_together, identify
from trust.formats.pickle_scan import PickleScan, advice_on
from trust.formats.summary import facts_of, storable
from trust.formats.warnings import FileWarning, warnings_of

MAX_CODE = 500
MAX_WARNINGS = 200


@dataclass(frozen=True, slots=True)
class CopiedFile:
    """A file that the staging area holds, and what it is; `copied_bytes` is 0 when the store held it
    before.
    """

    file: ManifestFile
    identified: IdentifiedFile
    copied_bytes: int
    warnings: tuple[FileWarning, ...] = ()
    advice: PickleScan | None = None


def judged(staging: Staging, entry: ManifestFile, *, copied_bytes: int, admits_runnable: bool) -> CopiedFile:
    """Identify a file that the staging area holds and nobody can change any more. Raises FileRefused."""
    with staging.opened(entry.sha256) as content:
        identified = identify(entry.path, content, admits_runnable=admits_runnable)
        warnings = warnings_of(entry.path, identified.format, content)
        advice = advice_on(entry.path, identified.format, content)
    return CopiedFile(entry, identified, copied_bytes, warnings, advice)


def judged_together(
    copied: Sequence[CopiedFile], *, skipped: Sequence[tuple[str, str]], what_to_do: str = WHAT_TO_DO
) -> ImportResult:
    """Accepted, or refused for what only shows when all files are there. Raises FileRefused."""
    refusals, settled = check_together([one.identified for one in copied])
    if refusals:
        return refused(refusals, what_to_do=what_to_do)
    formats = {identified.path: identified.format for identified in settled}
    manifest = manifest_of(replace(one.file, format=formats[one.file.path]) for one in copied)
    return ImportResult(
        "accepted",
        files=manifest.files,
        skipped=tuple(skipped),
        code=_code(settled),
        warnings=tuple(warned for one in copied for warned in one.warnings)[:MAX_WARNINGS],
        pickles=tuple(one.advice for one in copied if one.advice)[:MAX_CODE],
        facts=facts_of(settled),
        copied_bytes=sum(one.copied_bytes for one in copied),
    )


def _code(files: Sequence[IdentifiedFile]) -> tuple[tuple[str, str], ...]:
    carried = [(file.path, code.CARRIED) for file in files if file.format == code.FORMAT]
    carried += [
        (file.path, recognised.carried(file.format)) for file in files if file.format in recognised.FORMATS
    ]
    named = [
        (file.path, storable(f"Its auto_map names {', '.join(file.names_code)}."))
        for file in files
        if file.names_code
    ]
    return tuple(sorted(carried + named)[:MAX_CODE])
