"""What a database that comes out of a backup must know: time has gone on without it.

Between the backup and the loss rows have taken steps of which it knows nothing; gateways, model workers and
jobs may have seen them. What rises for ever (fences, the numbers of rows) leaps beyond all that they may have
seen. Who was in motion looks at once, under the keys that it had; before anything irreversible it asks
whether that took place (`Restoration.in_motion`).
"""

from collections.abc import Callable, Mapping
from typing import Any

from django.db.models import F, Model, Q

from common.models import Pulse, Restoration
from common.reconcile.engine import Kernel
from common.reconcile.engine import kernel as process_kernel
from common.reconcile.rows import EPOCH, Singleton

FENCES = 10**9
"""More claims than a row can have in years."""


def outlive_lost_time(
    restoration: Restoration, *, leap: Callable[[type[Model]], None], kernel: Kernel = process_kernel
) -> None:
    """Once, in the transaction that makes a restored database usable. `leap`: for the numbers of a table."""
    now = kernel.clock()
    in_motion: dict[str, list[int]] = {}
    fresh: Mapping[str, Any] = {"lease_until": EPOCH, "fence": F("fence") + FENCES}
    for kind in kernel.kinds:
        model = kernel.reconciler(kind).model
        rows = model._base_manager
        moving = rows.filter(~Q(next_at=None), stuck_at=None)
        if not issubclass(model, Singleton):
            in_motion[kind] = list(moving.values_list("pk", flat=True))
            leap(model)
        # What is at rest is moved by new wishes: their effects are others than those of the lost time.
        rows.filter(next_at=None).update(turn=F("turn") + FENCES, **fresh)
        rows.filter(~Q(stuck_at=None), ~Q(next_at=None)).update(**fresh)
        moving.update(next_at=now, attempts=0, **fresh)
    Pulse.objects.all().delete()
    restoration.in_motion = {kind: pks for kind, pks in in_motion.items() if pks}
    restoration.save()
