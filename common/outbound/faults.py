"""What can come of a request to a server that is not ours; each message says why."""

from common.errors import SlipwayError


class HostUnreachable(SlipwayError):
    """The server does not answer or breaks off; the same request may succeed later."""


class TimedOut(HostUnreachable):
    """The time limit of the whole request is over."""


class Unresolved(HostUnreachable):
    """Its name has no address at present: most often it is misspelt, and waiting does not help."""


class Misbehaves(SlipwayError):
    """Its answer is longer than it may be, or leads nowhere."""


class Forbidden(SlipwayError):
    """The request leads to an address that this server must not talk to."""
