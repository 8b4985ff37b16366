"""How an export advances: its process sends the version and commits it, once."""

import json
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from common import audit, events
from common.actor import Actor
from common.reconcile import Effect, LeaseLost, Operation, Outcome, Reconciler, Step, proceed, wait
from common.sealed import CannotUnseal
from models_registry import files
from models_registry.errors import IntakeBusy, SourceNotAllowed
from models_registry.events import VersionExported
from models_registry.hub.pushing import ExportResult
from models_registry.models import Export
from models_registry.patterns import matching
from models_registry.processes.importer import RESULT, STARTED
from models_registry.processes.pusher import FILES
from models_registry.reconcilers.checks import QUIET_AFTER_LAUNCH, Launching, Process, Start
from models_registry.reconcilers.versions import last_words_path, launch
from models_registry.services import exports
from models_registry.sources import check_export_endpoint, export_target
from models_registry.states import EXPORT_MOVES, OPEN_EXPORTS, ExportState

ACTOR = Actor.system("exporter")
LOOK_EVERY = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Seen:
    """What an export looks like from outside."""

    process: Process
    is_busy: bool
    why_not: str = ""


class Send(Step[Export]):
    """Its process runs until its result is there, or until a person pauses it."""

    name = "send"
    effect = Effect.ABSOLUTE

    def __init__(self, row: Export, start: Start) -> None:
        self._process = Launching(row, row.intake_key, row.attempt, start)
        self._why_not = ""

    def act(self, row: Export, operation: Operation) -> None:
        store, key = files.store(), row.intake_key
        if self._process.note(RESULT) is not None:
            return
        if store.is_busy(key):
            if self._process.note(STARTED) is None or row.state == ExportState.PAUSED:
                # Somebody works on it, but for an attempt that is over.
                store.ask_to_stop(key)
            return
        if row.state == ExportState.PAUSED:
            return
        try:
            check_export_endpoint(row.endpoint)
            target, token = export_target(row), exports.token_of(row)
        except (SourceNotAllowed, CannotUnseal) as error:
            self._why_not = str(error)
            return
        if store.read_note(key, FILES) is None:
            _check_fence(row, operation)
            self._list_files(row)
        self._process.unless_running(operation, target, token)

    @staticmethod
    def _list_files(row: Export) -> None:
        """Too many for a command line, they go ahead into the intake."""
        held = {file.path: file for file in files.manifest_of(row.version).files}
        wanted = matching(held, allow=row.allow_patterns, ignore=row.ignore_patterns)
        listed = [(file.path, file.size, file.sha256) for file in map(held.__getitem__, wanted)]
        with suppress(IntakeBusy), files.store().intake(row.intake_key) as intake:
            intake.write_note(FILES, json.dumps(listed).encode())

    def observe(self, row: Export, operation: Operation) -> Seen:
        is_fresh = row.launched_at is not None and operation.at - row.launched_at < QUIET_AFTER_LAUNCH
        is_busy = is_fresh or files.store().is_busy(row.intake_key)
        return Seen(self._process.seen(), is_busy, self._why_not)

    def settle(self, row: Export, seen: Seen, now: datetime) -> Outcome:
        process = seen.process
        if process.result is not None:
            return _judged(row, ExportResult.from_json(process.result), now)
        if seen.why_not:
            return _moved(row, ExportState.FAILED, now, reason=seen.why_not)
        if process.has_given_up:
            why = f"The process that sent it died {row.launches} times. {_last_words(row)}".strip()
            return _moved(row, ExportState.FAILED, now, reason=why)
        if row.state == ExportState.PAUSED:
            # Nothing is due until somebody wakes the row; the step goes on then.
            return wait(LOOK_EVERY) if seen.is_busy else Outcome(next_in=None, ends_step=False)
        return wait(LOOK_EVERY, save={**(process.progress or {}), **self._process.launched(now)})


def _judged(row: Export, result: ExportResult, now: datetime) -> Outcome:
    if result.outcome == "sent":
        had = "held it already; nothing was sent" if result.was_there else "holds it"
        what, compared = f"Commit {result.commit[:12]}", "It was compared file by file."
        if row.is_to_slipway:
            what, compared = f"Version {result.commit} there", "Its digest is the same."
        figures = {"bytes_done": row.bytes_total, "files_done": row.files_total}
        return _moved(
            row,
            ExportState.DONE,
            now,
            reason=f"{what} {had}. {compared}",
            commit=result.commit,
            **figures,
            **exports.FORGOTTEN,
        )
    if result.outcome == "failed":
        return _moved(row, ExportState.FAILED, now, reason=result.reason)
    if row.state == ExportState.PAUSED:
        return Outcome(next_in=None, ends_step=False)
    return _moved(row, ExportState.INTERRUPTED, now, reason=result.reason)


class LetGo(Step[Export]):
    """What the store holds for the export alone."""

    name = "let go"
    effect = Effect.ABSOLUTE

    def act(self, row: Export, operation: Operation) -> None:
        store, key = files.store(), row.intake_key
        _check_fence(row, operation)
        if store.is_busy(key):
            store.ask_to_stop(key)
            return
        with suppress(IntakeBusy):
            store.discard(key, is_referenced=files.needed)
        last_words_path(key).unlink(missing_ok=True)

    def observe(self, row: Export, operation: Operation) -> bool:
        return row.intake_key in files.store().intakes()

    def settle(self, row: Export, seen: bool, now: datetime) -> Outcome:
        return wait(LOOK_EVERY) if seen else proceed(save={"is_held": False}, write=lambda: None)


class ExportReconciler(Reconciler[Export]):
    kind = "export"
    model = Export

    def __init__(self, start: Start = launch) -> None:
        self._start = start

    def next_step(self, row: Export, now: datetime) -> Step[Export] | None:
        if row.state in (ExportState.SENDING, ExportState.PAUSED):
            return Send(row, self._start)
        return LetGo() if row.is_held and row.state not in OPEN_EXPORTS else None


def _moved(row: Export, to: ExportState, now: datetime, *, reason: str, **columns: Any) -> Outcome:
    EXPORT_MOVES.check(ExportState(row.state), to)
    ended = {} if to in OPEN_EXPORTS else {"ended_at": now}
    detail = exports.told(row) | {"commit": columns.get("commit", "")}

    def write() -> None:
        team_id = row.version.model.team_id
        audit.record(ACTOR, f"export.{to}", subject=row, reason=reason, detail=detail, team_id=team_id)
        if to == ExportState.DONE:
            events.publish(VersionExported(row.version_id, row.pk))

    return proceed(
        save={"state": to, "reason": reason, "bytes_per_second": 0, **ended, **columns}, write=write
    )


def _check_fence(row: Export, operation: Operation) -> None:
    if not Export.objects.filter(pk=row.pk, fence=operation.fence).exists():
        raise LeaseLost


def _last_words(row: Export) -> str:
    try:
        lines = last_words_path(row.intake_key).read_text(errors="replace").strip().splitlines()
    except FileNotFoundError:
        return ""
    return f"Its last words: {lines[-1][:500]}" if lines else ""
