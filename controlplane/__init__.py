"""Composition root: may import everything, nobody imports it."""

from controlplane.celery import app as celery_app

__all__ = ["celery_app"]
