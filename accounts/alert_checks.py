"""Checks of tokens, webhooks and audit outputs."""

from collections.abc import Iterable
from datetime import timedelta

from django.utils.translation import gettext_lazy as _

from accounts import metrics, selectors
from common import clock
from common.alert_checks import AlertCheck, AlertFinding, beyond, measured
from common.metrics import work


def _expiring_tokens() -> Iterable[AlertFinding]:
    now = clock.now()
    return [
        AlertFinding(
            {"token": f"{row.name} (slp_{row.prefix}...)", "owner": row.owner.username},
            round((row.expires_at - now) / timedelta(days=1)),
            address="/settings/tokens/",
            team_id=row.team_id,
        )
        for row in selectors.expiring_tokens()
    ]


ALERT_CHECKS = (
    AlertCheck(
        name="SlipwayTokenExpires",
        title=_("Token in use expires within a week"),
        severity="warning",
        find=_expiring_tokens,
        metric=beyond("tokens_expiring"),
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
