"""Celery workers take due rows, too: each process of the pool by itself, without the broker."""

import threading
from typing import TYPE_CHECKING, Any

from celery import Celery, bootsteps
from celery.signals import worker_before_create_process, worker_process_init, worker_process_shutdown

from common import watchdog

if TYPE_CHECKING:
    from common.reconcile.taking import StepWorker

THREADS = 2
"""Of a pool process, beside the one that answers doorbells."""
OUTSIDE_THREADS = 8
"""As many again at most for what waits for outside systems."""
FINISH_WITHIN_SECONDS = 5.0

_takers: "list[StepWorker]" = []
_stopped = threading.Event()


@worker_before_create_process.connect
def take_in_each(**_: Any) -> None:
    """Have each new process take, after Celery's own receiver, which closes its pool of connections: not
    under threads that use it already. Runs in the main process.
    """
    worker_process_init.connect(begin_to_take)


def begin_to_take(**_: Any) -> None:
    """Begin to take, in each pool process."""
    # Not before: Celery loads this module, and Django's apps after it.
    from common.disk_watch import watch_disk
    from common.reconcile import kernel
    from common.reconcile.taking import StepWorker

    taker = StepWorker(kernel, role="worker", threads=THREADS, outside_threads=OUTSIDE_THREADS)
    _takers[:] = [taker]
    taker.start()
    watch_disk(_stopped)


@worker_process_shutdown.connect
def take_no_more(**_: Any) -> None:
    _stopped.set()
    while _takers:
        _takers.pop().stop(within_seconds=FINISH_WITHIN_SECONDS)


class MainProcessHeartbeat(bootsteps.StartStopStep):
    """The worker's main process says that its loop turns, for as long as it has a broker to listen to."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def __init__(self, parent: Any, **options: Any) -> None:
        super().__init__(parent, **options)
        self._timer: Any = None

    def start(self, parent: Any) -> None:
        watchdog.pulse()
        self._timer = parent.timer.call_repeatedly(1.0, watchdog.pulse)

    def stop(self, parent: Any) -> None:
        """The consumer ends, or waits for its broker, which may take long."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        watchdog.leave()


def watch_main_process(app: Celery) -> None:
    app.steps["consumer"].add(MainProcessHeartbeat)
