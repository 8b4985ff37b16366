"""Checks of the model store."""

from django.utils.translation import gettext_lazy as _

from common.alert_checks import AlertCheck, measured
from model_store.metrics import store_findings

ALERT_CHECKS = (
    AlertCheck(
        name="SlipwayFilesLost",
        title=_("Files of the model store are lost"),
        severity="critical",
        find=measured(store_findings, "store_findings", address="/models/+store/", state="lost"),
        note=_("Import the versions again that the store's page names, or restore a backup."),
    ),
)
