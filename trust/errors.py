"""What can go wrong with keys and signatures."""

from common.errors import SlipwayError


class BadKey(SlipwayError):
    """The key cannot be used here."""


class BadSignature(SlipwayError):
    """A signature does not say what it should."""


class CannotSign(SlipwayError):
    """The key of this installation, or the command that has it, does not sign."""
