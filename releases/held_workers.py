"""Work that has to end on the workers of a version: they stay for it after its release is over."""

from collections.abc import Callable
from datetime import timedelta

HELD_AT_MOST = timedelta(days=7)
_holds: list[Callable[[str], bool]] = []


def register_hold(holds: Callable[[str], bool]) -> None:
    """Have an app above say whether a deployment still has such work."""
    _holds.append(holds)


def is_held(deployment: str) -> bool:
    return any(holds(deployment) for holds in _holds)
