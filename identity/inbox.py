"""That the break-glass account was used, for those who administer the installation."""

from collections.abc import Iterator
from datetime import timedelta
from urllib.parse import urlencode

from django.utils.translation import gettext as _

from accounts import selectors
from accounts.login import BREAK_GLASS
from accounts.states import Right
from common import clock
from common.actor import Actor
from common.models import AuditRecord
from common.pages.inbox import InboxEntry, InboxSource

SHOWN_FOR = timedelta(hours=24)


def break_glass_uses(actor: Actor) -> Iterator[InboxEntry]:
    """The last of the past day."""
    if not selectors.may_everywhere(actor, Right.PEOPLE_ADMIN):
        return
    since = clock.now() - SHOWN_FOR
    last = AuditRecord.objects.filter(action=BREAK_GLASS, at__gte=since).order_by("-seq").first()
    if last is None:
        return
    yield InboxEntry(
        badge=("sign_in", "break_glass"),
        title=_("The break-glass account %(name)s signed in") % {"name": last.actor},
        url=f"/audit/?{urlencode({'action': BREAK_GLASS})}",
        since=last.at,
        why=_("From %(address)s, by password. Check that somebody of you did.")
        % {"address": last.address or "?"},
    )


BREAK_GLASS_USES = InboxSource(find=break_glass_uses)
