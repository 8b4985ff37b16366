"""How the store is kept: collections every day, checks every so many."""

from contextlib import suppress
from datetime import datetime, timedelta
from typing import ClassVar

from django.conf import settings

from common.actor import Actor
from common.reconcile import Outcome, Reconciler, Step, proceed
from models_registry.errors import Busy
from models_registry.models import StoreKeeper
from models_registry.services import storage

KEEPER = Actor.system("store keeper")
DAILY = timedelta(days=1)


class BeginRuns(Step[StoreKeeper]):
    """What is missed while nothing runs is made up for once."""

    name = "begin"

    def settle(self, row: StoreKeeper, seen: None, now: datetime) -> Outcome:
        days = settings.SLIPWAY_STORE_CHECK_DAYS
        collects, checks = row.collect_at <= now, bool(days) and row.check_at <= now
        collect_at = now + DAILY if collects else row.collect_at
        check_at = now + timedelta(days=days) if checks else row.check_at
        save = {"collect_at": collect_at, "check_at": check_at}
        after = max(timedelta(0), (min(collect_at, check_at) if days else collect_at) - now)

        def write() -> None:
            # Each for itself: that one is under way still does not keep the other from beginning.
            with suppress(Busy):
                if collects:
                    storage.begin_collection(actor=KEEPER)
            with suppress(Busy):
                if checks:
                    storage.begin_check(actor=KEEPER)

        return proceed(save=save, write=write, after=after)


class StoreKeeperReconciler(Reconciler[StoreKeeper]):
    kind = "store-keeper"
    model = StoreKeeper
    max_attempts: ClassVar[int] = 30_000
    """It does not give up: at a minute each these are three weeks."""

    def next_step(self, row: StoreKeeper, now: datetime) -> Step[StoreKeeper] | None:
        return BeginRuns()
