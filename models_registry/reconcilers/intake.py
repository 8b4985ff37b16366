"""The process that works in a row's intake: started, seen from outside, and what it leaves let go of."""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from django.conf import settings

from common import disk
from common.reconcile import Effect, Operation, Outcome, Step, proceed, wait
from models_registry import blob_store
from models_registry.errors import IntakeBusy
from models_registry.importing.allowance import Allowance
from models_registry.models import Check, Export, Finding, Version
from models_registry.processes import apart, guardian
from models_registry.processes.job import PROGRESS, RESULT, STARTED, Job, Source
from models_registry.reconcilers.fence import check_fence

LOOK_EVERY = timedelta(seconds=1)
MAX_LAUNCHES = 10
QUIET_AFTER_LAUNCH = timedelta(seconds=5)
"""A new process needs a moment until it holds its lock; no second one is started meanwhile."""

Start = Callable[[Job], None]
Row = TypeVar("Row", Version, Finding, Export)


def launch(job: Job) -> None:
    """Start the process of a job; its last words go to a file in the log directory."""
    apart.launch(job, log=last_words_path(job.key))


def last_words_path(key: str) -> Path:
    return Path(settings.SLIPWAY_LOG_DIR) / "imports" / f"{key}.log"


@dataclass(frozen=True, slots=True)
class Seen:
    """A process from outside. `is_busy`: it works, or was started a moment ago."""

    has_launched: bool
    has_given_up: bool
    is_busy: bool
    result: dict[str, Any] | None
    progress: dict[str, Any] | None
    is_without_room: bool = False
    """The disk is full: it cannot even say how it ends, and none is started before there is room."""


class Process:
    """The process of a row's intake, in its present `attempt`."""

    def __init__(self, row: Version | Check | Finding | Export, attempt: int, start: Start) -> None:
        self._row, self._attempt, self._start = row, attempt, start
        self._has_launched = False

    def note(self, name: str) -> dict[str, Any] | None:
        """A note that it has left in this attempt."""
        found = blob_store.store().read_note(self._row.intake_key, name)
        if found is None:
            return None
        note: dict[str, Any] = json.loads(found)
        return note if note.pop("attempt") == self._attempt else None

    def is_to_be_started(self, now: datetime, *, is_wanted: bool = True) -> bool:
        """Whether it neither runs nor has ended, and has not died too often.

        One that is not wanted, or that works for an attempt that is over, is asked to stop.
        """
        store, key = blob_store.store(), self._row.intake_key
        if self.note(RESULT) is not None:
            return False
        if store.is_busy(key):
            if not is_wanted or (self.note(STARTED) is None and not self._is_fresh(now)):
                store.ask_to_stop(key)
            return False
        if disk.is_full():
            return False
        return is_wanted and not self._is_fresh(now) and self._row.launches < MAX_LAUNCHES

    def start(
        self, operation: Operation, source: Source, *, secret: str = "", allowance: Allowance | None = None
    ) -> None:
        check_fence(self._row, operation)
        stack = guardian.present()
        self._start(
            Job(
                store=blob_store.store().address,
                key=self._row.intake_key,
                attempt=self._attempt,
                source=source,
                guardian_pid=stack.pid,
                guardian_started=stack.create_time(),
                allowance=allowance,
                secret=secret,
            )
        )
        self._has_launched = True

    def seen(self, now: datetime) -> Seen:
        result, is_busy = self.note(RESULT), blob_store.store().is_busy(self._row.intake_key)
        is_over = self._row.launches >= MAX_LAUNCHES and not is_busy and not self._has_launched
        is_without_room = disk.is_full()
        return Seen(
            has_launched=self._has_launched,
            has_given_up=result is None and is_over and not is_without_room,
            is_without_room=is_without_room,
            is_busy=is_busy or self._is_fresh(now),
            result=result,
            progress=self.note(PROGRESS),
        )

    def launched(self, now: datetime) -> dict[str, Any]:
        """The columns of the row that count how often it was started; what a full disk ended is none."""
        if disk.is_full() and not self._has_launched:
            return {"launches": 0, "launched_at": None}
        return {"launches": self._row.launches + 1, "launched_at": now} if self._has_launched else {}

    def why_given_up(self, what: str) -> str:
        """`what` it was, with the last that it said, as sentences."""
        return f"{what} died {self._row.launches} times. {self._last_words()}".strip()

    def _last_words(self) -> str:
        try:
            said = last_words_path(self._row.intake_key).read_text(errors="replace").strip().splitlines()
        except FileNotFoundError:
            return ""
        return f"Its last words: {said[-1][:500]}" if said else ""

    def _is_fresh(self, now: datetime) -> bool:
        return self._row.launched_at is not None and now - self._row.launched_at < QUIET_AFTER_LAUNCH


class LetGo(Step[Row]):
    """What the store holds for the row alone is removed; blobs are left to the collection."""

    name = "let go"
    effect = Effect.ABSOLUTE
    look_every: ClassVar[timedelta] = LOOK_EVERY

    def act(self, row: Row, operation: Operation) -> None:
        store, key = blob_store.store(), row.intake_key
        check_fence(row, operation)
        if store.is_busy(key):
            store.ask_to_stop(key)
            return
        self.keep(row, operation)
        with suppress(IntakeBusy):
            store.discard(key, is_referenced=blob_store.needed)
        self.let_go_of_directories(row)
        last_words_path(key).unlink(missing_ok=True)

    def keep(self, row: Row, operation: Operation) -> None:
        """Give to the store what somebody will want again; the rest goes with the intake."""

    def let_go_of_directories(self, row: Row) -> None:
        """Of versions, as far as these are not to be served as they are."""

    def observe(self, row: Row, operation: Operation) -> bool:
        return row.intake_key in blob_store.store().intakes()

    def settle(self, row: Row, seen: bool, now: datetime) -> Outcome:
        if seen:
            return wait(self.look_every)
        return proceed(save={"is_held": False}, write=partial(self.tell, row))

    def tell(self, row: Row) -> None:
        """Publish what others wait for, now that it is gone."""
