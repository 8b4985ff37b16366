"""How pages put where a sync or an export stands, and what people can ask of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from django.utils.translation import gettext_lazy as _

from common.languages import Text


class Button(NamedTuple):
    label: Text
    icon: str
    tone: str
    done: Text
    """Said once it is done."""
    keep: Text = ""
    """On the button that closes its dialog."""


class DialogTexts(NamedTuple):
    """The texts of the dialog that a button opens."""

    title: Text
    says: Text


@dataclass(frozen=True, slots=True)
class Descriptions:
    wishes: Mapping[str, DialogTexts]
    problems: Mapping[str, Text]
    """By state: above the reason for it."""
    endings: Mapping[str, Text]
    """By state: after the reason for it."""


BUTTONS = {
    "pause": Button(_("Pause"), "player-pause", "plain", _("Paused: what has moved is kept.")),
    "resume": Button(_("Resume"), "player-play", "good", _("It continues.")),
    "cancel": Button(_("Cancel transfer"), "x", "bad", _("The transfer is cancelled."), _("Keep it")),
    "retry": Button(_("Retry"), "refresh", "good", _("It starts over.")),
}
SYNC = Descriptions(
    wishes={
        "pause": DialogTexts(
            _("Pause this sync?"), _("Received files are kept, and the transfer continues from there.")
        ),
        "resume": DialogTexts(
            _("Resume this sync?"), _("Received files are hashed again, and only the rest is fetched.")
        ),
        "cancel": DialogTexts(
            _("Cancel this sync?"), _("Fetched files are removed. It can be retried later.")
        ),
        "retry": DialogTexts(_("Sync it again?"), _("The hub resolves the revision to a commit again.")),
    },
    problems={
        "paused": _("Paused. Received files are kept."),
        "interrupted": _("Interrupted. Resume continues with the files received so far."),
        "failed": _("The sync did not finish."),
        "refused": _("Its files must not enter the registry."),
    },
    endings={
        "done": _("Size and hash of every file were verified."),
        "current": _("There was nothing to fetch."),
        "cancelled": _("Received files were removed."),
    },
)
EXPORT = Descriptions(
    wishes={
        "pause": DialogTexts(_("Pause this export?"), _("Parts that have arrived are not sent again.")),
        "resume": DialogTexts(
            _("Resume this export?"),
            _("Existing files are checked first, and only missing ones are sent."),
        ),
        "cancel": DialogTexts(
            _("Cancel this export?"),
            _("Nothing more is sent. Data in flight may still have arrived: check the destination."),
        ),
        "retry": DialogTexts(
            _("Export it again?"), _("Existing files are checked first and not sent again.")
        ),
    },
    problems={
        "paused": _("Paused. The destination keeps received data for a while."),
        "interrupted": _("Interrupted. Resume sends only what is missing there."),
        "failed": _("The export did not finish."),
    },
    endings={},
)
