"""The Celery worker under a watchdog: `python -m controlplane.worker OPTIONS`, those of `celery worker`."""

import sys

import django

from common.watchdog import leave, watched
from controlplane.celery import app


def work() -> int:
    leave()  # until it has connected to the broker: what takes due rows are the processes of its pool
    app.worker_main(["worker", *sys.argv[1:]])
    return 0


if __name__ == "__main__":
    django.setup()
    sys.exit(watched(work))
