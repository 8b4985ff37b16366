"""Pages of what seldom changes look again when something was done there: `changes:models` and the like."""

from typing import ClassVar

from django.utils.translation import gettext as _

from common.actor import Actor
from common.audit import Recorded
from common.errors import Missing, NotAllowed
from common.live import PUBLIC, Audience, Topic, touch

AREAS = {
    "models_registry": "models",
    "images": "images",
    "accounts": "settings",
    "releases.plan": "settings",
}
"""The part of the console in which the things of an app, or of one kind, are shown."""
AUDIT = "audit"


class ChangesTopic(Topic):
    """One part of the console: says only "look again", so that who may see what is the page's to say."""

    kind: ClassVar[str] = "changes"
    min_gap_seconds: ClassVar[float] = 2.0

    def audience(self, actor: Actor, key: str) -> Audience:
        if key != AUDIT and key not in AREAS.values():
            raise Missing(_("There is no such part of the console."))
        if actor.user_id is None:
            raise NotAllowed(_("Sign in to see it."))
        return frozenset({PUBLIC})


def show_changes(event: Recorded) -> None:
    touch(ChangesTopic.kind, AUDIT)
    kind = event.subject_kind
    if area := AREAS.get(kind) or AREAS.get(kind.partition(".")[0]):
        touch(ChangesTopic.kind, area)
