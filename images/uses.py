"""Uses of an image, asked of the apps above, which the catalogue does not know."""

from collections.abc import Callable, Sequence
from typing import Any

from common.actor import Actor
from images.models import RuntimeImage

UseCheck = Callable[[Actor, RuntimeImage], Sequence[str]]
"""The present uses of an image that the actor may know of, in words."""

_checks: list[UseCheck] = []


def register_use_check(check: UseCheck) -> None:
    """Show its answer on the image's page. Registering twice changes nothing."""
    if check not in _checks:
        _checks.append(check)


PullTimes = Callable[[Actor, RuntimeImage], Sequence[Any]]
"""How long machines took to pull an image, by cluster: `cluster`, `machines`, `pulls`, `p50`, `p95`."""

_pull_times: list[PullTimes] = []


def register_pull_times(read: PullTimes) -> None:
    """Show them on the image's page. Registering twice changes nothing."""
    if read not in _pull_times:
        _pull_times.append(read)


def pull_times(actor: Actor, image: RuntimeImage) -> list[Any]:
    return [one for read in _pull_times for one in read(actor, image)]


def uses(actor: Actor, image: RuntimeImage) -> list[str]:
    return [words for check in _checks for words in check(actor, image)]
