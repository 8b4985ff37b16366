"""What of the releases' history is deleted once it has been kept for long enough.

Releases, their steps, moves and approvals stay for good.
"""

from datetime import datetime

from django.db.models import QuerySet
from django.utils.translation import gettext_lazy as _

from common.reconcile.pruning import PruningRule
from releases.models import EvidencePoint, PushedCount
from releases.states import IN_MOTION


def _points(before: datetime) -> QuerySet[EvidencePoint]:
    """Points of the evidence of releases that are over."""
    rows = EvidencePoint.objects.filter(at__lt=before, release__ended_at__lt=before)
    return rows.exclude(release__state__in=IN_MOTION).order_by("pk")


def _counts(before: datetime) -> QuerySet[PushedCount]:
    return PushedCount.objects.filter(at__lt=before).order_by("pk")


RULES = (
    PruningRule(
        EvidencePoint,
        _("Points of the evidence charts of releases"),
        "SLIPWAY_KEEP_EVIDENCE_DAYS",
        _points,
        kept=_("Charts of active releases stay, and the last verdict of every release."),
    ),
    PruningRule(
        PushedCount,
        _("Pushed counts of indicators"),
        "SLIPWAY_KEEP_EVIDENCE_DAYS",
        _counts,
        kept=_("The evidence that was made of them stays with its release."),
    ),
)
