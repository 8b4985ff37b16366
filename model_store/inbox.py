"""Matters of the store, and of the disk that holds it, that wait for a person."""

from collections.abc import Iterator

from django.urls import reverse
from django.utils.translation import gettext as _

from accounts.selectors import may_everywhere
from accounts.states import Right
from common import disk
from common.actor import Actor
from common.disk import DiskState
from common.disk_watch import changed_at
from common.pages.disk_notice import words
from common.pages.inbox import InboxEntry
from model_store import selectors
from model_store.states import CorruptBlobState

LOST_SHOWN = 20


def lost_files(actor: Actor) -> Iterator[InboxEntry]:
    """Files that are gone for good, for those who look after the store."""
    if not may_everywhere(actor, Right.FLEET_OPERATE):
        return
    lost = selectors.corrupt_blobs().filter(state=CorruptBlobState.LOST, stuck_at__isnull=True)
    for row in lost[:LOST_SHOWN]:
        yield InboxEntry(
            badge=("finding", CorruptBlobState.LOST),
            title=_("Lost file %(sha256)s") % {"sha256": row.sha256[:12]},
            url=reverse("store-page"),
            since=row.found_at,
            why=row.reason,
            notes=(_("store"),),
        )


def disk_room(actor: Actor) -> Iterator[InboxEntry]:
    """Yield an entry when the disk is full, or almost, for those who look after the machine."""
    if not may_everywhere(actor, Right.FLEET_OPERATE):
        return
    url = reverse("store-page")
    try:
        room = disk.room()
    except OSError:
        yield InboxEntry(badge=("disk", "unknown"), title=_("Disk"), url=url, since=None, why=words())
        return
    if room.state is not DiskState.OK:
        yield InboxEntry(
            badge=("disk", room.state), title=str(room.path), url=url, since=changed_at(room), why=words()
        )
