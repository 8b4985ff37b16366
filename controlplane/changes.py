"""Pages of what seldom changes look again when something was done there: `changes:models` and the like."""

from typing import ClassVar

from django.utils.translation import gettext as _

from common.actor import Actor
from common.audit import Recorded
from common.errors import Missing, NotAllowed
from common.live.board import PUBLIC, Audience
from common.live.topics import Topic
from common.live.touch import touch
from common.pages import subjects
from common.pages.shell import current_item, nav_items

AUDIT = "audit"


class ChangesTopic(Topic):
    """One part of the console: says only "look again", so that who may see what is the page's to say."""

    kind: ClassVar[str] = "changes"
    min_gap_seconds: ClassVar[float] = 2.0

    def audience(self, actor: Actor, key: str) -> Audience:
        if not any(item.follows_changes and item.area == key for item in nav_items()):
            raise Missing(_("There is no such part of the console."))
        if actor.user_id is None:
            raise NotAllowed(_("Sign in to see it."))
        return frozenset({PUBLIC})


def show_changes(event: Recorded) -> None:
    """Tell the audit log, and the part of the console in which the thing has its page."""
    touch(ChangesTopic.kind, AUDIT)
    address = subjects.address_of_kind(event.subject_kind)
    item = current_item(address) if address else None
    if item is not None and item.follows_changes and item.area != AUDIT:
        touch(ChangesTopic.kind, item.area)
