"""What every page says while the disk of the home is full, or almost."""

from dataclasses import dataclass

from django.utils.translation import gettext as _

from common import disk
from common.disk import DiskState
from common.pages import formats
from common.pages.badges import Tone


@dataclass(frozen=True, slots=True)
class DiskNotice:
    tone: Tone
    words: str


def notice() -> DiskNotice | None:
    """Return the notice; None while there is room."""
    try:
        state = disk.room().state
    except OSError:
        return DiskNotice("bad", words())
    if state is DiskState.OK:
        return None
    return DiskNotice("bad" if state is DiskState.FULL else "warn", words())


def words() -> str:
    """Say what is wrong and what to do, as sentences."""
    try:
        room = disk.room()
    except OSError as error:
        return _("The disk cannot be asked: %(fault)s.") % {"fault": error.strerror or error}
    told = {"path": room.path, "free": formats.byte_size(max(0, room.free))}
    if room.is_full:
        return (
            _(
                "The disk of %(path)s is full. Nothing new is written until there is room; the gateway, the "
                "workers and running releases go on. Free space there: it goes on by itself."
            )
            % told
        )
    told["percent"] = f"{room.free_percent:.1f}"
    return _("The disk of %(path)s is almost full: %(free)s left (%(percent)s%%). Free space soon.") % told
