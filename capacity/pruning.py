"""History of capacity that is deleted once it has been kept for long enough. Plans stay for good."""

from datetime import datetime

from django.db.models import QuerySet
from django.utils.translation import gettext_lazy as _

from capacity.models import GroupSwitch, ServiceLoad
from common.reconcile.pruning import PruningRule


def _switches(before: datetime) -> QuerySet[GroupSwitch]:
    return GroupSwitch.objects.filter(at__lt=before).order_by("pk")


def _loads(before: datetime) -> QuerySet[ServiceLoad]:
    return ServiceLoad.objects.filter(at__lt=before).order_by("pk")


RULES = (
    PruningRule(ServiceLoad, _("Minutes of the load of services"), "SLIPWAY_KEEP_CAPACITY_DAYS", _loads),
    PruningRule(GroupSwitch, _("Decisions on groups of services"), "SLIPWAY_KEEP_CAPACITY_DAYS", _switches),
)
