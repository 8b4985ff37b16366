"""What waits for this person: all that apps have offered."""

from functools import cached_property

from common.actor import Actor
from common.declared import manifests
from common.pages.inbox import InboxEntry, InboxSource


def sources() -> list[InboxSource]:
    return [source for manifest in manifests() for source in manifest.inbox]


def inbox(actor: Actor) -> list[InboxEntry]:
    """Oldest first: who waits longest is served first."""
    entries = [entry for source in sources() for entry in source.find(actor)]
    return sorted(entries, key=lambda entry: (entry.since is None, entry.since))


class InboxCard:
    def __init__(self, actor: Actor) -> None:
        self._actor = actor

    @cached_property
    def entries(self) -> list[InboxEntry]:
        return inbox(self._actor)

    @property
    def topics(self) -> list[str]:
        """The live topics that say when to look again."""
        return sorted({source.topic for source in sources() if source.topic})
