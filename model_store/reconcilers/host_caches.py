"""Each host removes from its own disk the directories of versions that there are no longer."""

from datetime import timedelta

from common.hosts import this_host
from common.jobs.steps import check_fence
from common.reconcile import Effect, Operation, Recurring
from common.reconcile.pulses import living_hosts
from model_store import blob_store, references
from model_store.models import ModelDirectoryHost


class ModelDirectoryReconciler(Recurring[ModelDirectoryHost]):
    """Woken when a version is deleted; a host that was away looks when it is back."""

    model = ModelDirectoryHost
    name = "let go"
    effect = Effect.ABSOLUTE
    every = timedelta(hours=1)
    waits_for_host = False

    def host_of(self, row: ModelDirectoryHost) -> str:
        """The host that has the cache. A host that is gone has taken its disk along, so any other then
        does nothing.
        """
        return row.host if row.host == this_host() or row.host in living_hosts() else ""

    def act(self, row: ModelDirectoryHost, operation: Operation) -> None:
        if row.host != this_host():
            return
        store = blob_store.store()
        found = set(store.materialised())
        # Asked after they were seen: of each that may stay, the version was there before its directory.
        kept = references.laid_out(found)
        check_fence(row, operation)
        for digest in found - kept:
            store.dematerialise(digest)
