"""What can go wrong with hubs. Every message is a sentence for the person who asked."""

from common.errors import Conflict, Missing


class SourceTaken(Conflict):
    """The model has a source of this repository already, or a sync of it that runs."""


class UnknownHubSource(Missing):
    """The model has no such source, or the actor may not see it."""


class UnknownTransfer(Missing):
    """The model has no such sync or export, or the actor may not see it."""
