"""What runs an image: asked of the apps above, which the catalogue does not know."""

from collections.abc import Callable, Sequence

from common.actor import Actor
from images.models import RuntimeImage

UseCheck = Callable[[Actor, RuntimeImage], Sequence[str]]
"""The present uses of an image that the actor may know of, in words."""

_checks: list[UseCheck] = []


def register_use_check(check: UseCheck) -> None:
    """Show its answer on the image's page. Registering twice changes nothing."""
    if check not in _checks:
        _checks.append(check)


def uses(actor: Actor, image: RuntimeImage) -> list[str]:
    return [words for check in _checks for words in check(actor, image)]
