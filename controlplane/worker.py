"""The Celery worker, as it runs under a watchdog."""

from collections.abc import Sequence

from common.watchdog import leave
from controlplane.celery import app


def work(options: Sequence[str]) -> int:
    """`options`: those of `celery worker`."""
    leave()  # until it has connected to the broker: what takes due rows are the processes of its pool
    app.worker_main(["worker", *options])
    return 0
