"""How a check of the store advances, and what becomes of each blob that it finds damaged or missing."""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from common import audit
from common.actor import Actor
from common.reconcile import Effect, LeaseLost, Operation, Outcome, Reconciler, Step, proceed, wait
from common.sealed import CannotUnseal
from models_registry import files, selectors
from models_registry.errors import BlobMissing, CheckFailed, IntakeBusy, SourceNotAllowed
from models_registry.hub.fetching import KEPT
from models_registry.importing.directory import ImportResult
from models_registry.manifest import Manifest
from models_registry.models import Check, Export, Finding, UnreferencedBlob, Version, VersionFile
from models_registry.processes import importer
from models_registry.processes.checker import CheckProgress, Damage
from models_registry.processes.importer import PROGRESS, RESULT, Job, WholeStore
from models_registry.reconcilers.versions import last_words_path, launch
from models_registry.services import versions
from models_registry.services.hubs import token_of
from models_registry.sources import source_of
from models_registry.states import OPEN_FINDINGS, WHOLE, FindingState, RunState

ACTOR = Actor.system("store check")
LOOK_EVERY = timedelta(seconds=1)
MAX_LAUNCHES = 10
QUIET_AFTER_LAUNCH = timedelta(seconds=5)
"""A new process needs a moment until it holds its lock; no second one is started meanwhile."""

Start = Callable[[Job], None]


@dataclass(frozen=True, slots=True)
class Process:
    """What a process that works in an intake looks like from outside."""

    has_launched: bool = False
    has_given_up: bool = False
    result: dict[str, Any] | None = None
    progress: dict[str, Any] | None = None


class Launching:
    """Start the process of an intake unless it runs, has ended, or has died too often."""

    def __init__(self, row: Check | Finding | Export, key: str, attempt: int, start: Start) -> None:
        self._row, self._key, self._attempt, self._start = row, key, attempt, start
        self._has_launched = False

    def note(self, name: str) -> dict[str, Any] | None:
        """A note of this attempt's process."""
        found = files.store().read_note(self._key, name)
        if found is None:
            return None
        note: dict[str, Any] = json.loads(found)
        return note if note.pop("attempt") == self._attempt else None

    def unless_running(self, operation: Operation, source: Any, secret: str = "") -> None:
        row, store = self._row, files.store()
        is_fresh = row.launched_at is not None and operation.at - row.launched_at < QUIET_AFTER_LAUNCH
        if self.note(RESULT) is not None or store.is_busy(self._key) or is_fresh:
            return
        if row.launches >= MAX_LAUNCHES:
            return
        _check_fence(row, operation)
        guardian = importer.guardian()
        self._start(
            Job(
                store=store.address,
                key=self._key,
                attempt=self._attempt,
                source=source,
                guardian_pid=guardian.pid,
                guardian_started=guardian.create_time(),
                secret=secret,
            )
        )
        self._has_launched = True

    def seen(self) -> Process:
        result = self.note(RESULT)
        is_over = self._row.launches >= MAX_LAUNCHES and not files.store().is_busy(self._key)
        return Process(
            has_launched=self._has_launched,
            has_given_up=result is None and is_over and not self._has_launched,
            result=result,
            progress=self.note(PROGRESS),
        )

    def launched(self, now: datetime) -> dict[str, Any]:
        return {"launches": self._row.launches + 1, "launched_at": now} if self._has_launched else {}


class Read(Step[Check]):
    """The checking process runs until its result is there."""

    name = "read"
    effect = Effect.ABSOLUTE

    def __init__(self, row: Check, start: Start) -> None:
        self._process = Launching(row, row.intake_key, row.pk, start)

    def act(self, row: Check, operation: Operation) -> None:
        self._process.unless_running(operation, WholeStore(row.bytes_per_second))

    def observe(self, row: Check, operation: Operation) -> Process:
        return self._process.seen()

    def settle(self, row: Check, seen: Process, now: datetime) -> Outcome:
        if seen.result is None:
            if seen.has_given_up:
                raise CheckFailed(f"The checking process died {row.launches} times.")
            figures = _figures(CheckProgress.from_json(seen.progress)) if seen.progress else {}
            return wait(LOOK_EVERY, save={**figures, **self._process.launched(now)})
        if "damages" not in seen.result:
            raise CheckFailed(str(seen.result["reason"]))
        result = CheckProgress.from_json(seen.result)

        def write() -> None:
            for damage in result.damages:
                _note_damage(row, damage, now)

        return proceed(save={**_figures(result), "has_read": True}, write=write)


def _figures(progress: CheckProgress) -> dict[str, int]:
    return {
        "blobs_done": progress.blobs_done,
        "blobs_total": progress.blobs_total,
        "bytes_done": progress.bytes_done,
        "bytes_total": progress.bytes_total,
        "damaged": len(progress.damages),
    }


class LookForMissing(Step[Check]):
    """Of what versions need, what is not there?"""

    name = "look for missing"
    effect = Effect.ABSOLUTE

    def act(self, row: Check, operation: Operation) -> None:
        """What the process has left is not needed any more."""
        with suppress(IntakeBusy):
            files.store().discard(row.intake_key, is_referenced=files.needed)
        last_words_path(row.intake_key).unlink(missing_ok=True)

    def observe(self, row: Check, operation: Operation) -> dict[str, int]:
        # Before the store is looked at: what becomes ready meanwhile is not missed.
        needed = VersionFile.objects.filter(version__state__in=WHOLE).order_by()
        lacking = dict(needed.values_list("sha256", "size").distinct())
        for sha256 in Finding.objects.open().values_list("sha256", flat=True):
            lacking.pop(sha256, None)
        for _, blobs in files.store().walk():
            for sha256 in blobs:
                lacking.pop(sha256, None)
        return lacking

    def settle(self, row: Check, seen: dict[str, int], now: datetime) -> Outcome:
        def write() -> None:
            for sha256, size in seen.items():
                _record_finding(
                    Finding(
                        found_by=row,
                        sha256=sha256,
                        size=size,
                        detail="It is not in the store.",
                        found_at=now,
                    )
                )
            detail = {"blobs": row.blobs_done, "damaged": row.damaged, "missing": len(seen)}
            audit.record(ACTOR, "store.checked", subject=row, detail=detail)

        return proceed(save={"missing": len(seen), "state": RunState.DONE, "ended_at": now}, write=write)


def _note_damage(row: Check, damage: Damage, now: datetime) -> None:
    if Finding.objects.open().filter(sha256=damage.sha256).exists():
        return
    finding = Finding(
        found_by=row,
        sha256=damage.sha256,
        size=damage.size,
        mark=damage.mark,
        detail=damage.detail,
        found_at=now,
    )
    _record_finding(finding)


def _record_finding(finding: Finding) -> None:
    finding.next_at = finding.found_at
    finding.save(force_insert=True)
    named = [str(version) for version in selectors.versions_needing(finding.sha256)]
    detail = {"sha256": finding.sha256, "versions": named[:100]}
    audit.record(ACTOR, "finding.found", subject=finding, reason=finding.detail, detail=detail)


class CheckReconciler(Reconciler[Check]):
    kind = "store-check"
    model = Check

    def __init__(self, start: Start = launch) -> None:
        self._start = start

    def next_step(self, row: Check, now: datetime) -> Step[Check] | None:
        if not row.is_running:
            return None
        return LookForMissing() if row.has_read else Read(row, self._start)


class SetAside(Step[Finding]):
    """The damaged file is moved out of the way; whoever needs it is told that it is gone."""

    name = "set aside"
    effect = Effect.ABSOLUTE

    def act(self, row: Finding, operation: Operation) -> None:
        _check_fence(row, operation)
        if row.mark:
            files.store().quarantine(row.sha256, mark=row.mark)

    def settle(self, row: Finding, seen: None, now: datetime) -> Outcome:
        return _moved(row, FindingState.ASIDE, now)


class Repair(Step[Finding]):
    """Import one of its versions again, beside it, and take the one blob out of that."""

    name = "repair"
    effect = Effect.ABSOLUTE

    def __init__(self, row: Finding, start: Start) -> None:
        self._process = Launching(row, row.intake_key, len(row.tried), start)
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
                source = source_of(versions.readable_source(self._version), admits_runnable=True)
                secret = token_of(self._version.source)
            except (SourceNotAllowed, CannotUnseal) as error:
                self._why_not = str(error)
                return
            self._process.unless_running(operation, source, secret)
            return
        found = [file for file in ImportResult.from_json(self._result).files if file.sha256 == row.sha256]
        if found:
            _check_fence(row, operation)
            with suppress(BlobMissing):
                files.store().publish(row.intake_key, Manifest((found[0],)))

    def observe(self, row: Finding, operation: Operation) -> Process:
        return self._process.seen()

    def settle(self, row: Finding, seen: Process, now: datetime) -> Outcome:
        version = self._version
        if version is None:
            if not selectors.versions_needing(row.sha256).exists():
                return _moved(row, FindingState.UNNEEDED, now, reason="No version needs it any more.")
            reason = row.reason or "No source of its versions can be read any more."
            return _moved(row, FindingState.LOST, now, reason=reason)
        if _is_back(row, version):
            return _moved(row, FindingState.REPAIRED, now, reason=f"From the source of {version}.")
        if self._result is None and not seen.has_given_up and not self._why_not:
            return wait(LOOK_EVERY, save=self._process.launched(now))
        # The next version's source is tried, in an intake of its own.
        why = self._why_not or "The process that fetched it died too often."
        if self._result is not None:
            why = str(self._result["reason"]).removesuffix(KEPT).strip() or "It holds other content by now."
        words = f"Not from the source of {version}: {why}"
        tried = {"tried": [*row.tried, version.pk], "launches": 0, "launched_at": None, "reason": words}
        return proceed(save={**tried, "is_held": True}, write=lambda: None)


class LetGo(Step[Finding]):
    """What was fetched for the repair and is not needed; directories that still show the damaged file."""

    name = "let go"
    effect = Effect.ABSOLUTE

    def act(self, row: Finding, operation: Operation) -> None:
        store, key = files.store(), row.intake_key
        _check_fence(row, operation)
        if store.is_busy(key):
            store.ask_to_stop(key)
            return
        with suppress(IntakeBusy):
            store.discard(key, is_referenced=files.needed)
        if row.state == FindingState.REPAIRED:
            for version in selectors.versions_needing(row.sha256):
                # Workers that run keep what they have opened; the next one gets the whole file.
                store.dematerialise(version.digest or "")
        last_words_path(key).unlink(missing_ok=True)

    def observe(self, row: Finding, operation: Operation) -> bool:
        return row.intake_key in files.store().intakes()

    def settle(self, row: Finding, seen: bool, now: datetime) -> Outcome:
        if seen:
            return wait(LOOK_EVERY)
        return proceed(save={"is_held": False}, write=lambda: None)


class FindingReconciler(Reconciler[Finding]):
    kind = "finding"
    model = Finding

    def __init__(self, start: Start = launch) -> None:
        self._start = start

    def next_step(self, row: Finding, now: datetime) -> Step[Finding] | None:
        if row.is_held:
            return LetGo()
        if row.state == FindingState.FOUND:
            return SetAside()
        return Repair(row, self._start) if row.state == FindingState.ASIDE else None


def _is_back(row: Finding, version: Version) -> bool:
    needed = [file for file in files.manifest_of(version).files if file.sha256 == row.sha256]
    try:
        files.store().check(Manifest(tuple(needed)))
    except BlobMissing:
        return False
    return True


def _moved(row: Finding, to: FindingState, now: datetime, *, reason: str = "") -> Outcome:
    is_over = to not in OPEN_FINDINGS

    def write() -> None:
        if to == FindingState.ASIDE:
            # Gone already: a collection must not count it.
            UnreferencedBlob.objects.filter(sha256=row.sha256).delete()
        audit.record(ACTOR, f"finding.{to}", subject=row, reason=reason)

    save = {"state": to, "reason": reason, "is_held": to != FindingState.ASIDE}
    return proceed(save=save | ({"ended_at": now} if is_over else {}), write=write)


def _check_fence(row: Check | Finding | Export, operation: Operation) -> None:
    if not type(row).objects.filter(pk=row.pk, fence=operation.fence).exists():
        raise LeaseLost
