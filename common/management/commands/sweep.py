import signal
import threading
from collections.abc import Callable
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from common.disk_watch import watch_disk
from common.reconcile import kernel
from common.reconcile.taking import EVERY_SECONDS, OUTSIDE_THREADS, StepWorker
from common.watchdog import watched


class Command(BaseCommand):
    stealth_options = ("begin",)
    """Called in the process that takes, before it does."""
    help = "Take rows that are due, again and again: what moves the system when the broker does not."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--every", type=float, default=EVERY_SECONDS, metavar="SECONDS", help="pause between sweeps"
        )
        parser.add_argument("--threads", type=int, default=4, help="rows advanced side by side")
        parser.add_argument(
            "--outside-threads",
            type=int,
            default=OUTSIDE_THREADS,
            help="as many again, made on demand, for rows that wait for outside systems",
        )

    def handle(self, *args: Any, every: float, threads: int, outside_threads: int, **options: Any) -> None:
        begin: Callable[[], None] = options.get("begin", lambda: None)

        def sweep() -> int:
            begin()
            stop = threading.Event()
            for name in (signal.SIGTERM, signal.SIGINT):
                signal.signal(name, lambda *_: stop.set())
            taker = StepWorker(
                kernel,
                role="sweeper",
                threads=threads,
                outside_threads=outside_threads,
                every_seconds=every,
            )
            taker.start()
            watch_disk(stop)
            stop.wait()
            taker.stop()
            return 0

        if status := watched(sweep):
            raise SystemExit(status)
