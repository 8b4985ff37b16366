"""How an export advances: its process sends the version and commits it, once."""

import json
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from accounts.states import Right
from common import audit, events
from common.actor import Actor
from common.reconcile import Effect, Operation, Outcome, Reconciler, Step, wait
from common.sealed import CannotUnseal
from models_registry import blob_store, files
from models_registry.errors import IntakeBusy, SourceNotAllowed
from models_registry.events import VersionExported
from models_registry.export_targets import check_export_endpoint, export_target
from models_registry.hub.sending import ExportResult
from models_registry.models import Export
from models_registry.patterns import matching
from models_registry.processes.export import FILES
from models_registry.reconcilers import intake
from models_registry.reconcilers.fence import check_fence
from models_registry.reconcilers.intake import LOOK_EVERY, LetGo, Process, Start, launch
from models_registry.reconcilers.moves import moved
from models_registry.services import exports
from models_registry.states import EXPORT_MOVES, OPEN_EXPORTS, ExportState

ACTOR = Actor.system("exporter")
_moved = partial(moved, OPEN_EXPORTS, bytes_per_second=0)


@dataclass(frozen=True, slots=True)
class Seen:
    """An export from outside; `why_not`: its process cannot be started, as a sentence."""

    process: intake.Seen
    why_not: str


class Send(Step[Export]):
    """Its process runs until its result is there, or until a person pauses it."""

    name = "send"
    effect = Effect.ABSOLUTE

    def __init__(self, row: Export, start: Start) -> None:
        self._process = Process(row, row.attempt, start)
        self._why_not = ""

    def act(self, row: Export, operation: Operation) -> None:
        is_wanted = row.state != ExportState.PAUSED
        if not self._process.is_to_be_started(operation.at, is_wanted=is_wanted):
            return
        try:
            check_export_endpoint(row.endpoint)
            target, token = export_target(row), exports.token_of(row)
        except (SourceNotAllowed, CannotUnseal) as error:
            self._why_not = str(error)
            return
        if blob_store.store().read_note(row.intake_key, FILES) is None:
            check_fence(row, operation)
            self._list_files(row)
        self._process.start(operation, target, secret=token)

    @staticmethod
    def _list_files(row: Export) -> None:
        """Too many for a command line, they go ahead into the intake."""
        held = {file.path: file for file in files.manifest_of(row.version).files}
        wanted = matching(held, allow=row.allow_patterns, ignore=row.ignore_patterns)
        listed = [(file.path, file.size, file.sha256) for file in map(held.__getitem__, wanted)]
        with suppress(IntakeBusy), blob_store.store().intake(row.intake_key) as mine:
            mine.write_note(FILES, json.dumps(listed).encode())

    def observe(self, row: Export, operation: Operation) -> Seen:
        return Seen(self._process.seen(operation.at), self._why_not)

    def settle(self, row: Export, seen: Seen, now: datetime) -> Outcome:
        process = seen.process
        if process.result is not None:
            return _judged(row, ExportResult.from_json(process.result), now)
        if seen.why_not:
            return _moved(ExportState.FAILED, now, reason=seen.why_not)
        if process.has_given_up:
            why = self._process.why_given_up("The process that sent it")
            return _moved(ExportState.FAILED, now, reason=why)
        if row.state == ExportState.PAUSED:
            # Nothing is due until somebody wakes the row; the step goes on then.
            return wait(LOOK_EVERY) if process.is_busy else Outcome(next_in=None, ends_step=False)
        return wait(LOOK_EVERY, save={**(process.progress or {}), **self._process.launched(now)})


def _judged(row: Export, result: ExportResult, now: datetime) -> Outcome:
    if result.outcome == "sent":
        had = "held it already; nothing was sent" if result.was_there else "holds it"
        what, compared = f"Commit {result.commit[:12]}", "It was compared file by file."
        if row.is_to_slipway:
            what, compared = f"Version {result.commit} there", "Its digest is the same."
        return _moved(
            ExportState.DONE,
            now,
            reason=f"{what} {had}. {compared}",
            commit=result.commit,
            bytes_done=row.bytes_total,
            files_done=row.files_total,
            **exports.FORGOTTEN,
        )
    if result.outcome == "failed":
        return _moved(ExportState.FAILED, now, reason=result.reason)
    if row.state == ExportState.PAUSED:
        return Outcome(next_in=None, ends_step=False)
    return _moved(ExportState.INTERRUPTED, now, reason=result.reason)


class ExportReconciler(Reconciler[Export]):
    model = Export
    moves = EXPORT_MOVES
    right = Right.MODELS_EXPORT

    def __init__(self, start: Start = launch) -> None:
        self._start = start

    def next_step(self, row: Export, now: datetime) -> Step[Export] | None:
        if row.state in (ExportState.SENDING, ExportState.PAUSED):
            return Send(row, self._start)
        return LetGo[Export]() if row.is_held and row.state not in OPEN_EXPORTS else None

    def on_move(self, row: Export, to: str, note: str) -> None:
        if to == ExportState.DONE:
            row.refresh_from_db(fields=["commit"])
            events.publish(VersionExported(row.version_id, row.pk))
        team_id = row.version.model.team_id
        audit.record(
            ACTOR, f"export.{to}", subject=row, reason=note, detail=exports.told(row), team_id=team_id
        )
