"""The schedule of the store: collections every day, checks every so many."""

from contextlib import suppress
from datetime import datetime, timedelta

from django.conf import settings

from common.actor import Actor
from common.reconcile import Recurring, StepOutcome, proceed
from model_store import services
from model_store.errors import RunUnderWay
from model_store.models import StoreSchedule

MAINTENANCE = Actor.system("store keeper")
DAILY = timedelta(days=1)


class StoreScheduleReconciler(Recurring[StoreSchedule]):
    """Begins scheduled checks and collections; one that was missed while nothing ran is made up for once."""

    model = StoreSchedule
    name = "begin"

    def settle(self, row: StoreSchedule, seen: None, now: datetime) -> StepOutcome:
        days = settings.SLIPWAY_STORE_CHECK_DAYS
        collects, checks = row.collect_at <= now, bool(days) and row.check_at <= now
        collect_at = now + DAILY if collects else row.collect_at
        check_at = now + timedelta(days=days) if checks else row.check_at
        save = {"collect_at": collect_at, "check_at": check_at}
        after = max(timedelta(0), (min(collect_at, check_at) if days else collect_at) - now)

        def write() -> None:
            # Each for itself: that one is under way still does not keep the other from beginning.
            with suppress(RunUnderWay):
                if collects:
                    services.begin_collection(actor=MAINTENANCE)
            with suppress(RunUnderWay):
                if checks:
                    services.begin_check(actor=MAINTENANCE)

        return proceed(save=save, write=write, after=after)
