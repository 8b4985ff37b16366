"""What of the history of syncs and exports is deleted once it has been kept for long enough."""

from datetime import datetime

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils.translation import gettext_lazy as _

from common.reconcile.pruning import PruningRule, at_rest
from hubs.models import Export, HubSync
from hubs.states import OPEN, TransferState


def _syncs(before: datetime) -> QuerySet[HubSync]:
    """Return syncs that are neither their source's last nor the last that found their version's commit."""
    rows = at_rest(HubSync.objects.filter(ended_at__lt=before).exclude(state__in=OPEN))
    later = HubSync.objects.filter(pk__gt=OuterRef("pk"))
    of_source = Exists(later.filter(source=OuterRef("source")))
    of_version = Q(version=None) | Exists(later.filter(version=OuterRef("version")))
    return rows.filter(of_source, of_version).order_by("pk")


def _exports(before: datetime) -> QuerySet[Export]:
    """Return exports that failed, or that a later export of the version to the same place replaced."""
    rows = Export.objects.filter(ended_at__lt=before, is_held=False).exclude(state__in=OPEN)
    place = {name: OuterRef(name) for name in ("version", "endpoint", "repo_id", "branch")}
    later = Export.objects.filter(pk__gt=OuterRef("pk"), state=TransferState.DONE, **place)
    return at_rest(rows.filter(~Q(state=TransferState.DONE) | Exists(later))).order_by("pk")


RULES = (
    PruningRule(
        HubSync,
        _("Hub syncs"),
        "SLIPWAY_KEEP_SYNCS_DAYS",
        _syncs,
        kept=_("The last sync of each source and of each version stays."),
    ),
    PruningRule(
        Export,
        _("Exports"),
        "SLIPWAY_KEEP_EXPORTS_DAYS",
        _exports,
        kept=_("The last successful export of a version to each destination stays."),
    ),
)
