import logging
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.db import close_old_connections, connection
from django.db.utils import Error as DatabaseFault
from django.utils import timezone

from common.models import Pulse
from common.reconcile import kernel

logger = logging.getLogger(__name__)

PULSE = "sweeper"
PULSE_EVERY_SECONDS = 2.0


class Command(BaseCommand):
    help = "Advance every row that is due, again and again: what moves the system when the broker does not."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--every", type=float, default=0.5, metavar="SECONDS", help="pause between sweeps"
        )
        parser.add_argument("--threads", type=int, default=4, help="rows advanced side by side")
        parser.add_argument(
            "--waiting-threads", type=int, default=8, help="as many again for rows that wait for strangers"
        )

    def handle(self, *args: Any, every: float, threads: int, waiting_threads: int, **options: Any) -> None:
        stop = threading.Event()
        for name in (signal.SIGTERM, signal.SIGINT):
            signal.signal(name, lambda *_: stop.set())
        in_hand: set[tuple[str, int]] = set()
        lock = threading.Lock()

        def advance(kind: str, pk: int) -> None:
            try:
                kernel.advance(kind, pk)
            except Exception:
                logger.exception("Sweeping %s %s failed", kind, pk)
            finally:
                connection.close()
                with lock:
                    in_hand.discard((kind, pk))

        pulsed_at = None
        with (
            ThreadPoolExecutor(threads, thread_name_prefix="sweep") as pool,
            ThreadPoolExecutor(waiting_threads, thread_name_prefix="strangers") as patient_pool,
        ):
            while not stop.is_set():
                try:
                    close_old_connections()
                    now = timezone.now()
                    if pulsed_at is None or (now - pulsed_at).total_seconds() >= PULSE_EVERY_SECONDS:
                        Pulse.objects.update_or_create(name=PULSE, defaults={"at": now})
                        pulsed_at = now
                    for due in kernel.due():
                        with lock:
                            if due in in_hand:
                                continue
                            in_hand.add(due)
                        waits = kernel.reconciler(due[0]).waits_for_strangers
                        (patient_pool if waits else pool).submit(advance, *due)
                except DatabaseFault:
                    logger.exception("The database does not answer; trying again")
                    connection.close()
                stop.wait(every)
