from common import errors


class RightMissing(errors.NotAllowed):
    """The actor lacks a right; the sentence names the right and who has it."""


class OutOfScope(errors.NotAllowed):
    """A token was asked for something that its owner may do, but it may not."""


class NotAdministrator(errors.NotAllowed):
    """Only an administrator of the whole installation may do it."""


class LastAdmin(errors.Conflict):
    """Nobody would be left to manage the team, or the installation."""


class TeamInUse(errors.Conflict):
    """The team still owns something."""


class InvalidToken(errors.SlipwayError):
    """The token is unknown, revoked or expired, or its owner is inactive."""
