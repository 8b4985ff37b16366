"""Steps of a damaged or missing blob: it is fetched again, or is lost."""

from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Any

from common import audit, events
from common.actor import Actor
from common.jobs.rows import NEVER_LAUNCHED
from common.jobs.steps import JobReconciler, check_fence
from common.reconcile import Effect, Operation, Step, StepOutcome
from common.reconcile.endings import moved
from model_store import blob_store, references
from model_store.events import BlobRepaired
from model_store.models import CorruptBlob, UnreferencedBlob
from model_store.reconcilers.staging_jobs import CleanupStaging
from model_store.repairs import repair_of
from model_store.states import CORRUPT_BLOB_MOVES, OPEN_CORRUPT_BLOBS, CorruptBlobState

ACTOR = Actor.system("store check")
_moved = partial(moved, OPEN_CORRUPT_BLOBS, is_held=True)


class QuarantineBlob(Step[CorruptBlob]):
    """The damaged file is moved out of the way, also of workers that start; they are told that it is gone."""

    name = "set aside"
    effect = Effect.ABSOLUTE

    def act(self, row: CorruptBlob, operation: Operation) -> None:
        check_fence(row, operation)
        if row.mark:
            blob_store.store().quarantine(row.sha256, mark=row.mark)
            _remove_directories(row)

    def settle(self, row: CorruptBlob, seen: None, now: datetime) -> StepOutcome:
        return _moved(CorruptBlobState.ASIDE, now, is_held=False)


class CleanupRepair(CleanupStaging[CorruptBlob]):
    """And directories that still show the damaged file."""

    def let_go_of_directories(self, row: CorruptBlob) -> None:
        if row.state == CorruptBlobState.REPAIRED:
            _remove_directories(row)

    def tell(self, row: CorruptBlob) -> None:
        if row.state == CorruptBlobState.REPAIRED:
            events.publish(BlobRepaired(row.sha256))


class CorruptBlobReconciler(JobReconciler[CorruptBlob]):
    model = CorruptBlob
    moves = CORRUPT_BLOB_MOVES

    def next_step(self, row: CorruptBlob, now: datetime) -> Step[CorruptBlob] | None:
        if row.is_held:
            return CleanupRepair(self.runner)
        if row.state == CorruptBlobState.FOUND:
            return QuarantineBlob()
        if row.state == CorruptBlobState.ASIDE:
            return repair_of(row, self.runner)
        return None

    def on_move(self, row: CorruptBlob, to: str, note: str) -> None:
        if to == CorruptBlobState.ASIDE:
            # Gone already: a collection must not count it.
            UnreferencedBlob.objects.filter(sha256=row.sha256).delete()
        audit.record(ACTOR, f"finding.{to}", subject=row, reason=note)

    def on_revive(self, row: CorruptBlob, by: str, reason: str) -> Mapping[str, Any]:
        return NEVER_LAUNCHED


def _remove_directories(row: CorruptBlob) -> None:
    """Remove directories of the versions that need it. Running workers keep their open files; the next get
    whole ones.
    """
    for owner in references.owners_of(row.sha256):
        blob_store.store().dematerialise(owner.digest)
