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


class Question(NamedTuple):
    """What the dialog of a button asks."""

    title: Text
    says: Text


@dataclass(frozen=True, slots=True)
class Descriptions:
    wishes: Mapping[str, Question]
    problems: Mapping[str, Text]
    """By state: above the reason for it."""
    endings: Mapping[str, Text]
    """By state: after the reason for it."""


BUTTONS = {
    "pause": Button(_("Pause"), "player-pause", "plain", _("Paused: what has moved is kept.")),
    "resume": Button(_("Resume"), "player-play", "good", _("It goes on.")),
    "cancel": Button(_("Cancel transfer"), "x", "bad", _("The transfer is cancelled."), _("Keep it")),
    "retry": Button(_("Retry"), "refresh", "good", _("It begins again.")),
}
SYNC = Descriptions(
    wishes={
        "pause": Question(_("Pause this sync?"), _("What has come is kept, and it goes on from there.")),
        "resume": Question(
            _("Go on with this sync?"), _("What has come is hashed again, and only the rest is fetched.")
        ),
        "cancel": Question(
            _("Cancel this sync?"), _("What it has fetched is removed. It can be tried again later.")
        ),
        "retry": Question(_("Sync it again?"), _("The hub is asked anew which commit the revision is.")),
    },
    problems={
        "paused": _("Paused. What has come is kept."),
        "interrupted": _("Interrupted. Resume goes on with what has come."),
        "failed": _("The sync did not finish."),
        "refused": _("Its files must not enter the registry."),
    },
    endings={
        "done": _("Size and hash of every file were verified."),
        "current": _("There was nothing to fetch."),
        "cancelled": _("What had come was removed."),
    },
)
EXPORT = Descriptions(
    wishes={
        "pause": Question(_("Pause this export?"), _("Parts that have arrived are not sent again.")),
        "resume": Question(
            _("Go on with this export?"),
            _("It is looked at what is there, and only what is missing there is sent."),
        ),
        "cancel": Question(
            _("Cancel this export?"),
            _("Nothing more is sent. What was on its way may still have arrived: look there."),
        ),
        "retry": Question(
            _("Export it again?"), _("It is looked first at what is there: that is not sent again.")
        ),
    },
    problems={
        "paused": _("Paused. What has arrived is kept there for a while."),
        "interrupted": _("Interrupted. Resume sends only what is missing there."),
        "failed": _("The export did not finish."),
    },
    endings={},
)
