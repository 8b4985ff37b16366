"""What words must not have: the checks, and what they say."""

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

from common.audit import MAX_REASON
from common.characters import hidden, storable
from common.errors import Invalid


def visible_name(name: str) -> None:
    """A validator of names: raises ValidationError for characters that nobody sees."""
    if found := hidden(name):
        raise ValidationError(hidden_fault(found))


def hidden_fault(found: list[str]) -> str:
    """Say what is wrong with a name in which these were found."""
    return _("It has characters that cannot be seen (%(codes)s). Type it without them.") % {
        "codes": ", ".join(found[:5])
    }


def text(field: str, value: str, *, limit: int) -> str:
    """`value` without surrounding blanks; Invalid when it is too long or cannot be stored."""
    stripped = value.strip()
    if len(stripped) > limit:
        raise Invalid(
            fields={
                field: [
                    _("At most %(limit)s characters; these are %(stripped)s.")
                    % {"limit": f"{limit:,}", "stripped": f"{len(stripped):,}"}
                ]
            }
        )
    if storable(stripped) != stripped:
        raise Invalid(fields={field: [_("It has characters that cannot be stored.")]})
    return stripped


def name(field: str, value: str, *, limit: int) -> str:
    """Check like `text`; Invalid also when it has characters that cannot be seen."""
    given = text(field, value, limit=limit)
    if found := hidden(given):
        raise Invalid(fields={field: [hidden_fault(found)]})
    return given


def reason(value: str) -> str:
    """Why somebody does something, for the audit log; Invalid as of `text`."""
    return text("reason", value, limit=MAX_REASON)


def demanded_reason(value: str, *, asks: str = "") -> str:
    """Check like `reason`; Invalid, with what it `asks`, also when nothing is said."""
    why = reason(value)
    if not why:
        raise Invalid(fields={"reason": [asks or _("Say why.")]})
    return why
