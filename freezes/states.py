from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _


class FreezeEffect(TextChoices):
    """What holds inside the times of a window."""

    DENY = "deny", _("Releases are frozen inside")
    ALLOW = "allow", _("Releases are frozen outside")
