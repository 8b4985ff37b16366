import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings.embedded")

from celery import Celery

from controlplane import heartbeats  # noqa: F401  # connects its signals
from controlplane.takers import watch_main_process

app = Celery("slipway")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
watch_main_process(app)
