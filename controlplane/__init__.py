"""Composition root: may import everything, nobody imports it.

Empty, so that the launcher and supervisord, which live in it, stay small; Django loads the Celery app
(`apps.py`).
"""
