"""Checks of releases."""

from django.utils.translation import gettext_lazy as _

from common.alert_checks import AlertCheck, measured
from releases.metrics import approval_waits

LONGEST_WAIT_SECONDS = 4 * 3_600

ALERT_CHECKS = (
    AlertCheck(
        name="SlipwayApprovalWaits",
        title=_("A release has waited for its approval for hours"),
        severity="warning",
        find=measured(
            approval_waits, "release_approval_wait_seconds", LONGEST_WAIT_SECONDS, address="/releases/"
        ),
        note=_("Its candidate keeps its share of the traffic meanwhile."),
    ),
)
