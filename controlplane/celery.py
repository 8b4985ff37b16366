import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings.embedded")

from celery import Celery

from controlplane import heartbeats  # noqa: F401  # connects its signals

app = Celery("slipway")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
