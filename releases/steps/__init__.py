"""The kinds of steps of a plan, a file each: schema, where it may stand, words, execution.

A new kind is a new file here: a `StepSpec` and the `Executor` that takes it. The editor, the strip, the
schemas and docs/PLANS.md follow.
"""

from importlib import import_module
from pkgutil import iter_modules


def load() -> None:
    """Make every kind known; once, when Django has loaded."""
    for module in iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")
