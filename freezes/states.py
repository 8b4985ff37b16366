from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _


class FreezeEffect(TextChoices):
    """Effect of a window on the releases that it concerns."""

    DENY = "deny", _("Deny (frozen during the window)")
    ALLOW = "allow", _("Allow (frozen outside the window)")
