"""The apps of Slipway. A new one is its folder and its line here, which is also its place in the layers.

Read before Django loads an app, so it imports nothing of them. `.importlinter` is written from it
(`manage.py import_contracts`).
"""

from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec

LAYERS: tuple[tuple[str, ...], ...] = (
    ("accounts",),
    ("identity",),
    ("model_store",),
    ("trust",),
    ("models_registry",),
    ("hubs",),
    ("images",),
    ("clusters",),
    ("gateway", "gpu_health"),
    ("benchmarks", "capacity", "freezes", "graphs"),
    ("optimization",),
    ("releases",),
    ("alerts", "charts", "configuration", "jobs", "objectives", "usage"),
)
"""Lowest first: an app may import those of the lines before its own. Apps of one line are independent."""
APPS = tuple(app for layer in LAYERS for app in layer)
NOT_APPS = ("common", "controlplane", "kube", "serving", "slipway")
"""Packages without a place of their own in the layers."""


def offered(name: str) -> Iterator[str]:
    """The modules `<app>.<name>` that there are, as dotted names, highest app first: what an app adds to the
    addresses of a lower one goes before the lower one's own."""
    for app in reversed(APPS):
        with suppress(ModuleNotFoundError):
            if find_spec(f"{app}.{name}"):
                yield f"{app}.{name}"
