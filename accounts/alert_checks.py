"""Checks of tokens, webhooks and audit outputs."""

from collections.abc import Iterable
from datetime import timedelta

from django.utils.translation import gettext_lazy as _

from accounts import metrics
from accounts.models import ApiToken
from common import clock
from common.alert_checks import AlertCheck, AlertFinding, measured
from common.metrics import work

EXPIRES_WITHIN = timedelta(days=7)
USED_WITHIN = timedelta(days=14)


def _expiring_tokens() -> Iterable[AlertFinding]:
    """Find tokens that are in use and end soon; short-lived ones are meant to."""
    now = clock.now()
    rows = ApiToken.objects.filter(
        revoked_at=None,
        is_exchanged=False,
        expires_at__range=(now, now + EXPIRES_WITHIN),
        last_used_at__gt=now - USED_WITHIN,
    ).select_related("owner", "team")
    return [
        AlertFinding(
            {"token": f"{row.name} (slp_{row.prefix}...)", "owner": row.owner.username},
            round((row.expires_at - now) / timedelta(days=1)),
            address="/settings/tokens/",
            team_id=row.team_id,
        )
        for row in rows
        if row.expires_at - row.created_at > 2 * EXPIRES_WITHIN
    ]


ALERT_CHECKS = (
    AlertCheck(
        name="SlipwayTokenExpires",
        title=_("Token in use expires within a week"),
        severity="warning",
        find=_expiring_tokens,
        note=_("Make a new token and put it where the old one is used. The value is days left."),
    ),
    AlertCheck(
        name="SlipwayWebhooksFailing",
        title=_("Webhook endpoint takes nothing"),
        severity="warning",
        find=measured(metrics.webhooks, "webhook_endpoints", address="/settings/webhooks/", state="failing"),
        lasts=timedelta(minutes=15),
        note=_("After three days of failures an endpoint is disabled; deliveries can be replayed."),
    ),
    AlertCheck(
        name="SlipwayAuditOutputFails",
        title=_("Output of the audit log fails"),
        severity="warning",
        find=measured(work, "rows_failing", kind="accounts.auditoutput"),
        lasts=timedelta(minutes=5),
        note=_("Nothing is lost: waiting entries are sent when the output works again."),
    ),
)
