"""What the gateway adds to the whole."""

from django.utils.translation import gettext_lazy as _

from common.declared import Manifest
from common.pages.subjects import Subject
from gateway.reconcilers import KeepGateway, KeepTraffic

MANIFEST = Manifest(
    reconcilers=(KeepGateway(), KeepTraffic()),
    subjects=(
        Subject("gateway.watch", _("Gateway"), "/fleet/", title=_("Gateway")),
        Subject("gateway.recorder", _("Traffic figures"), "/fleet/", title=_("Traffic figures")),
        Subject("gateway.route", _("Route")),
    ),
)
