"""Of tokens that CI jobs were given, and of what they were given for, nothing is worth keeping for long."""

from datetime import datetime

from django.db.models import QuerySet
from django.utils.translation import gettext_lazy as _

from accounts.models import ApiToken
from common.reconcile.pruning import PruningRule


def _exchanged(before: datetime) -> QuerySet[ApiToken]:
    return ApiToken.objects.filter(is_exchanged=True, expires_at__lt=before).order_by("pk")


RULES = (
    PruningRule(
        ApiToken,
        _("Expired tokens of CI jobs"),
        "SLIPWAY_KEEP_SESSIONS_DAYS",
        _exchanged,
        kept=_("Their entries in the audit log stay."),
    ),
)
