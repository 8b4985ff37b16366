"""What the gateway adds to the whole."""

from django.utils.translation import gettext_lazy as _

from common.declared import Manifest
from common.pages.subjects import Subject
from gateway.reconcilers import GatewayReconciler

MANIFEST = Manifest(
    reconcilers=(GatewayReconciler(),),
    subjects=(
        Subject("gateway.gateway", _("Gateway"), "/fleet/"),
        Subject("gateway.route", _("Route")),
    ),
)
