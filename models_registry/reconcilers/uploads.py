"""How an upload advances: it waits for parts, follows the version that is made of it, and lets go."""

from datetime import datetime, timedelta
from functools import partial

from accounts.states import Right
from common import audit
from common.actor import Actor
from common.jobs.steps import check_fence
from common.reconcile import Effect, LeaseLost, Operation, Reconciler, Step, StepOutcome, rest, wait
from common.reconcile.endings import moved
from models_registry import files
from models_registry.models import Upload, Version
from models_registry.states import LIVE_UPLOADS, UPLOAD_MOVES, UploadState, VersionState

ACTOR = Actor.system("uploads")
_moved = partial(moved, LIVE_UPLOADS)
EXPIRES_AFTER = timedelta(hours=24)
LOOK_EVERY = timedelta(seconds=1)
TIDY_EVERY = timedelta(seconds=5)


class ExpireUpload(Step[Upload]):
    """Give up an upload that nobody has sent anything to for a day."""

    name = "expire"

    def settle(self, row: Upload, seen: None, now: datetime) -> StepOutcome:
        left = row.touched_at + EXPIRES_AFTER - now
        if left > timedelta(0):
            return wait(left)
        why = f"Nothing came for {EXPIRES_AFTER // timedelta(hours=1)} hours."

        def check() -> None:
            if not Upload.objects.filter(pk=row.pk, touched_at=row.touched_at).exists():
                raise LeaseLost

        return _moved(UploadState.EXPIRED, now, reason=why, write=check)


class FollowUploadImport(Step[Upload]):
    """The version is imported; this tells how it ends."""

    name = "follow"

    def observe(self, row: Upload, operation: Operation) -> Version:
        return Version.objects.select_related("model").get(pk=row.version_id or 0)

    def settle(self, row: Upload, seen: Version, now: datetime) -> StepOutcome:
        if seen.state == VersionState.IMPORTING:
            return wait(LOOK_EVERY)
        if seen.state == VersionState.REFUSED:
            return _moved(UploadState.REFUSED, now, reason=seen.reason)
        if seen.state == VersionState.FAILED:
            # What has come is kept: it can be completed again.
            return _moved(UploadState.OPEN, now, reason=seen.reason, touched_at=now)
        return _moved(UploadState.DONE, now, reason=f"{seen} is {seen.state}.")


class CleanupUpload(Step[Upload]):
    """Remove the received parts; the version owns its files by now."""

    name = "let go"
    effect = Effect.ABSOLUTE

    def act(self, row: Upload, operation: Operation) -> None:
        check_fence(row, operation)
        files.buffer_of(row).discard()

    def observe(self, row: Upload, operation: Operation) -> bool:
        return files.buffer_of(row).exists()

    def settle(self, row: Upload, seen: bool, now: datetime) -> StepOutcome:
        if seen:
            return wait(TIDY_EVERY)
        return rest(save={"is_held": False}, write=lambda: _forget_contents(row))


def _forget_contents(row: Upload) -> None:
    row.contents.all().delete()


class UploadReconciler(Reconciler[Upload]):
    model = Upload
    moves = UPLOAD_MOVES
    right = Right.MODELS_WRITE

    def next_step(self, row: Upload, now: datetime) -> Step[Upload] | None:
        if row.state == UploadState.OPEN:
            return ExpireUpload()
        if row.state == UploadState.IMPORTING:
            return FollowUploadImport()
        return CleanupUpload() if row.is_held else None

    def on_move(self, row: Upload, to: str, note: str) -> None:
        audit.record(ACTOR, f"upload.{to}", subject=row, reason=note, team_id=row.model.team_id)
