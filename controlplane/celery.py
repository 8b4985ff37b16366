import os
import sys

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings.embedded")

from celery import Celery
from celery.signals import task_postrun

from controlplane import heartbeats, task_origins  # noqa: F401  # connect their signals
from controlplane.takers import watch_main_process

app = Celery("slipway")
app.config_from_object("django.conf:settings", namespace="CELERY")
# Celery's own care for connections would close the whole pool after each task, under the threads that use it.
app.conf["CELERY_DB_REUSE_MAX"] = sys.maxsize
app.autodiscover_tasks()
watch_main_process(app)


@task_postrun.connect
def give_back_connection(**_: object) -> None:
    from django.db import close_old_connections

    close_old_connections()
