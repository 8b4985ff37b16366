"""Steps of a garbage collection: part by part over the store, then what was left beside the blobs."""

from collections import abc
from dataclasses import dataclass
from datetime import datetime, timedelta
from time import monotonic

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet

from common import audit
from common.actor import Actor
from common.jobs.steps import check_fence
from common.reconcile import Effect, LeaseLost, Operation, Reconciler, Step, StepOutcome, move, wait
from model_store import blob_store, references
from model_store.backends.base import PARTS, Reclaimed
from model_store.models import Collection, CorruptBlob, UnreferencedBlob
from model_store.states import RUN_MOVES, RunState

ACTOR = Actor.system("collector")
AT_MOST_SECONDS = 4.0
"""After this long what was done is written down; a task has 20 s."""
_AT_ONCE = 500
FIGURES = ("blobs", "bytes", "waiting_blobs", "waiting_bytes", "deleted_blobs", "deleted_bytes")


@dataclass(frozen=True, slots=True)
class CollectionProgress:
    """The parts that were gone through: what lies there now, and what no longer does."""

    place: int
    blobs: int
    bytes: int
    waiting: dict[str, int]
    gone: dict[str, int]


class CollectParts(Step[Collection]):
    """Since when is a blob needed by nothing? Those that have been so for the grace time are deleted."""

    name = "collect"
    effect = Effect.ABSOLUTE

    def __init__(self) -> None:
        self._place = 0

    def act(self, row: Collection, operation: Operation) -> None:
        until = monotonic() + AT_MOST_SECONDS
        self._place = row.place
        while self._place < PARTS and (self._place == row.place or monotonic() < until):
            self._place = self._collect(row, self._place, operation)

    @staticmethod
    def _collect(row: Collection, first: int, operation: Operation) -> int:
        """Collect a part, and the next ones while they are small; which one is next."""
        store, parts, found = blob_store.store(), range(first, PARTS), dict[str, int]()
        for part, blobs in store.walk(first):
            found |= blobs
            if len(found) >= _AT_ONCE:
                parts = range(first, part + 1)
                break
        referenced = references.referenced(found)
        with transaction.atomic():
            _hold(row, operation)
            marks = set(_marks(parts).values_list("sha256", flat=True))
            _unmark(marks & referenced)
            UnreferencedBlob.objects.bulk_create(
                (
                    UnreferencedBlob(sha256=sha256, size=size, since=operation.at)
                    for sha256, size in found.items()
                    if sha256 not in referenced and sha256 not in marks
                ),
                batch_size=_AT_ONCE,
                ignore_conflicts=True,
            )
        before = operation.at - timedelta(seconds=row.grace_seconds)

        def is_referenced(blobs: abc.Collection[str]) -> set[str]:
            """Asked while nobody can publish; a deletion may have begun the grace time of one anew."""
            check_fence(row, operation)
            return references.referenced(blobs) | (set(blobs) - _due(parts, before))

        store.reclaim(found.keys() & _due(parts, before), is_referenced=is_referenced)
        return parts.stop

    def observe(self, row: Collection, operation: Operation) -> CollectionProgress:
        store, parts, found = blob_store.store(), range(row.place, self._place), dict[str, int]()
        for part, blobs in store.walk(row.place):
            if part not in parts:
                break
            found |= blobs
        waiting: dict[str, int] = {}
        gone: dict[str, int] = {}
        for sha256, size in _marks(parts).values_list("sha256", "size"):
            (waiting if sha256 in found else gone)[sha256] = size
        return CollectionProgress(self._place, len(found), sum(found.values()), waiting, gone)

    def settle(self, row: Collection, seen: CollectionProgress, now: datetime) -> StepOutcome:
        return wait(
            timedelta(0),
            save={
                "place": seen.place,
                "blobs": row.blobs + seen.blobs,
                "bytes": row.bytes + seen.bytes,
                "waiting_blobs": row.waiting_blobs + len(seen.waiting),
                "waiting_bytes": row.waiting_bytes + sum(seen.waiting.values()),
                "deleted_blobs": row.deleted_blobs + len(seen.gone),
                "deleted_bytes": row.deleted_bytes + sum(seen.gone.values()),
            },
            # A mark without its blob is counted when it is taken away: once, whoever deleted the blob.
            write=lambda: _unmark(seen.gone),
        )


class TidyStore(Step[Collection]):
    """Directories of versions that are gone, staging areas that nobody knows, and what was set aside long
    ago.
    """

    name = "tidy"
    effect = Effect.ABSOLUTE

    def __init__(self) -> None:
        self._cleared = Reclaimed(0, 0)

    def act(self, row: Collection, operation: Operation) -> None:
        store = blob_store.store()
        before = operation.at - timedelta(seconds=row.grace_seconds)
        old = {digest for digest, since in store.materialised().items() if since <= before}
        laid_out = references.laid_out(old)
        check_fence(row, operation)
        for digest in old - laid_out:
            store.dematerialise(digest)
        blob_store.forget_orphans()
        if days := settings.SLIPWAY_STORE_QUARANTINE_DAYS:
            # Of what is lost, the damaged file is all there is.
            keep = set(CorruptBlob.objects.open().values_list("sha256", flat=True))
            self._cleared = store.clear_quarantine(older_than=timedelta(days=days), keep=keep)

    def settle(self, row: Collection, seen: None, now: datetime) -> StepOutcome:
        deleted = {
            "deleted_blobs": row.deleted_blobs + self._cleared.blobs,
            "deleted_bytes": row.deleted_bytes + self._cleared.bytes,
        }
        return move(RunState.DONE, save={"ended_at": now, **deleted})


class CollectionReconciler(Reconciler[Collection]):
    model = Collection
    moves = RUN_MOVES

    def next_step(self, row: Collection, now: datetime) -> Step[Collection] | None:
        if not row.is_running:
            return None
        return CollectParts() if row.place < PARTS else TidyStore()

    def on_move(self, row: Collection, to: str, note: str) -> None:
        figures = Collection.objects.values(*FIGURES).get(pk=row.pk)
        audit.record(ACTOR, "store.collected", subject=row, detail=figures)


def _marks(parts: range) -> QuerySet[UnreferencedBlob]:
    """Select by a range and not by prefixes: every database finds a range by its index."""
    first, last = f"{parts.start:02x}", f"{parts.stop - 1:02x}"
    return UnreferencedBlob.objects.filter(sha256__gte=first, sha256__lt=f"{last}g")


def _due(parts: range, before: datetime) -> set[str]:
    return set(_marks(parts).filter(since__lte=before).values_list("sha256", flat=True))


def _unmark(blobs: abc.Iterable[str]) -> None:
    listed = list(blobs)
    for start in range(0, len(listed), _AT_ONCE):
        UnreferencedBlob.objects.filter(sha256__in=listed[start : start + _AT_ONCE]).delete()


def _hold(row: Collection, operation: Operation) -> None:
    """Lock the row until the transaction ends. Raises LeaseLost."""
    if not Collection.objects.filter(pk=row.pk, fence=operation.fence).update(fence=operation.fence):
        raise LeaseLost
