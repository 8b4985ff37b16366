"""What becomes of a blob that a check has found damaged or missing: it is fetched again, or is lost."""

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any

from common import audit, events
from common.actor import Actor
from common.reconcile import Effect, Operation, Outcome, Reconciler, Step, proceed, wait
from common.sealed import CannotUnseal
from models_registry import blob_store, files, references, selectors
from models_registry.errors import BlobMissing, SourceNotAllowed
from models_registry.events import BlobRepaired
from models_registry.file_manifest import Manifest
from models_registry.hub.fetching import KEPT
from models_registry.importing.results import ImportResult
from models_registry.models import Finding, UnreferencedBlob, Version
from models_registry.models.launched import NOT_LAUNCHED
from models_registry.processes.job import RESULT
from models_registry.reconcilers.fence import check_fence
from models_registry.reconcilers.intake import LOOK_EVERY, LetGo, Process, Seen, Start, launch
from models_registry.reconcilers.moves import moved
from models_registry.sources import readable_source, secret_of, source_of
from models_registry.states import FINDING_MOVES, OPEN_FINDINGS, FindingState

ACTOR = Actor.system("store check")
_moved = partial(moved, OPEN_FINDINGS, is_held=True)


class SetAside(Step[Finding]):
    """The damaged file is moved out of the way, also of workers that start; they are told that it is gone."""

    name = "set aside"
    effect = Effect.ABSOLUTE

    def act(self, row: Finding, operation: Operation) -> None:
        check_fence(row, operation)
        if row.mark:
            blob_store.store().quarantine(row.sha256, mark=row.mark)
            _remove_directories(row)

    def settle(self, row: Finding, seen: None, now: datetime) -> Outcome:
        return _moved(FindingState.ASIDE, now, is_held=False)


class Repair(Step[Finding]):
    """Import one of its versions again, beside it, and take the one blob out of that."""

    name = "repair"
    effect = Effect.ABSOLUTE

    def __init__(self, row: Finding, start: Start) -> None:
        self._process = Process(row, len(row.tried), start)
        self._version: Version | None = None
        self._why_not = ""
        self._result: dict[str, Any] | None = None
        """What `act` has found and made use of; a later one waits for the next look."""

    def act(self, row: Finding, operation: Operation) -> None:
        self._version = selectors.versions_needing(row.sha256).exclude(pk__in=row.tried).first()
        if self._version is None or _is_back(row, self._version):
            return
        self._result = self._process.note(RESULT)
        if self._result is None:
            try:
                # What was let in once may come back, whatever holds by now.
                source = source_of(readable_source(self._version), admits_runnable=True)
                secret = secret_of(self._version.source)
            except (SourceNotAllowed, CannotUnseal) as error:
                self._why_not = str(error)
                return
            if self._process.is_to_be_started(operation.at):
                self._process.start(operation, source, secret=secret)
            return
        found = [file for file in ImportResult.from_json(self._result).files if file.sha256 == row.sha256]
        if found:
            check_fence(row, operation)
            with suppress(BlobMissing):
                blob_store.store().publish(row.intake_key, Manifest((found[0],)))

    def observe(self, row: Finding, operation: Operation) -> Seen:
        return self._process.seen(operation.at)

    def settle(self, row: Finding, seen: Seen, now: datetime) -> Outcome:
        version = self._version
        if version is None:
            if not selectors.versions_needing(row.sha256).exists():
                return _moved(FindingState.UNNEEDED, now, reason="No version needs it any more.")
            reason = row.reason or "No source of its versions can be read any more."
            return _moved(FindingState.LOST, now, reason=reason)
        if _is_back(row, version):
            is_fetched = self._result is not None or row.launches
            reason = f"From the source of {version}." if is_fetched else "Another import brought it."
            return _moved(FindingState.REPAIRED, now, reason=reason)
        if self._result is None and not seen.has_given_up and not self._why_not:
            return wait(LOOK_EVERY, save=self._process.launched(now))
        # The next version's source is tried, in an intake of its own.
        why = self._why_not or "The process that fetched it died too often."
        if self._result is not None:
            why = str(self._result["reason"]).removesuffix(KEPT).strip() or "It holds other content by now."
        words = f"Not from the source of {version}: {why}"
        tried = {"tried": [*row.tried, version.pk], "launches": 0, "launched_at": None, "reason": words}
        return proceed(save={**tried, "is_held": True}, write=lambda: None)


class LetGoOfRepair(LetGo[Finding]):
    """And directories that still show the damaged file."""

    def let_go_of_directories(self, row: Finding) -> None:
        if row.state == FindingState.REPAIRED:
            _remove_directories(row)

    def tell(self, row: Finding) -> None:
        if row.state == FindingState.REPAIRED:
            events.publish(BlobRepaired(row.sha256))


class FindingReconciler(Reconciler[Finding]):
    model = Finding
    moves = FINDING_MOVES

    def __init__(self, start: Start = launch) -> None:
        self._start = start

    def next_step(self, row: Finding, now: datetime) -> Step[Finding] | None:
        if row.is_held:
            return LetGoOfRepair()
        if row.state == FindingState.FOUND:
            return SetAside()
        return Repair(row, self._start) if row.state == FindingState.ASIDE else None

    def on_move(self, row: Finding, to: str, note: str) -> None:
        if to == FindingState.ASIDE:
            # Gone already: a collection must not count it.
            UnreferencedBlob.objects.filter(sha256=row.sha256).delete()
        audit.record(ACTOR, f"finding.{to}", subject=row, reason=note)

    def on_revive(self, row: Finding, by: str, reason: str) -> Mapping[str, Any]:
        return NOT_LAUNCHED


def _remove_directories(row: Finding) -> None:
    """Of the versions that need it. Workers that run keep what they have opened; the next get whole files."""
    for owner in references.owners_of(row.sha256):
        blob_store.store().dematerialise(owner.digest)


def _is_back(row: Finding, version: Version) -> bool:
    needed = [file for file in files.manifest_of(version).files if file.sha256 == row.sha256]
    try:
        blob_store.store().check(Manifest(tuple(needed)))
    except BlobMissing:
        return False
    return True
