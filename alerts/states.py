from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _


class AlertState(TextChoices):
    """States of an alert; a pending one has not lasted long enough to fire."""

    PENDING = "pending", _("Pending")
    FIRING = "firing", _("Firing")
    ACKNOWLEDGED = "acknowledged", _("Acknowledged")
    SILENCED = "silenced", _("Silenced")
    RESOLVED = "resolved", _("Resolved")


OPEN = (AlertState.FIRING, AlertState.ACKNOWLEDGED, AlertState.SILENCED)


class AlertSeverity(TextChoices):
    CRITICAL = "critical", _("Critical")
    WARNING = "warning", _("Warning")
