"""What names must not have: the check, and what it says."""

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

from common.characters import hidden


def visible_name(name: str) -> None:
    """A validator of names: raises ValidationError for characters that nobody sees."""
    if found := hidden(name):
        raise ValidationError(hidden_fault(found))


def hidden_fault(found: list[str]) -> str:
    """What is wrong with a name in which these were found."""
    return _("It has characters that cannot be seen (%(codes)s). Type it without them.") % {
        "codes": ", ".join(found[:5])
    }
