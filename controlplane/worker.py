"""The Celery worker, as it runs under a watchdog."""

from collections.abc import Sequence

from common.watchdog import leave
from controlplane.celery import app
from controlplane.env import env


def work(options: Sequence[str]) -> int:
    """`options`: those of `celery worker`."""
    leave()  # until it has connected to the broker: what takes due rows are the processes of its pool
    # Its banner is not of lines that a program could read.
    quiet = ["--quiet"] if env.log_format == "json" else []
    app.worker_main([*quiet, "worker", *options])
    return 0
