"""What a signature amounts to, and what a team demands."""

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _


class SignatureVerdict(TextChoices):
    VALID = "valid", _("Valid")
    """A key that the team trusted then has signed just the files of the version."""
    UNKNOWN = "unknown", _("Unknown")
    """Nobody whom the team trusts has made it."""
    INVALID = "invalid", _("Invalid")
    """It is broken, or was made for other files."""
    MISSING = "missing", _("Missing")
    """Slipway is to sign the version and could not yet."""


class SignatureDemand(TextChoices):
    """The treatment of a version without a trusted signature when it is to be served."""

    OFF = "off", _("not required")
    WARN = "warn", _("it is served, with a warning")
    REQUIRE = "require", _("it is not served")
