"""What of the history of the store is deleted once it has been kept for long enough."""

from datetime import datetime

from django.db.models import Exists, OuterRef, QuerySet
from django.utils.translation import gettext_lazy as _

from common.reconcile.pruning import Rule, at_rest
from model_store.models import Check, Collection, Finding
from model_store.states import OPEN_FINDINGS, RunState


def _findings(before: datetime) -> QuerySet[Finding]:
    rows = Finding.objects.filter(ended_at__lt=before, is_held=False)
    return at_rest(rows.exclude(state__in=OPEN_FINDINGS)).order_by("pk")


def _checks(before: datetime) -> QuerySet[Check]:
    """But for the last, and those whose findings are still there."""
    rows = Check.objects.filter(ended_at__lt=before).exclude(state=RunState.RUNNING)
    later = Exists(Check.objects.filter(pk__gt=OuterRef("pk")))
    found = Exists(Finding.objects.filter(found_by=OuterRef("pk")))
    return at_rest(rows.filter(later).exclude(found)).order_by("pk")


def _collections(before: datetime) -> QuerySet[Collection]:
    """But for the last."""
    rows = Collection.objects.filter(ended_at__lt=before).exclude(state=RunState.RUNNING)
    return at_rest(rows.filter(Exists(Collection.objects.filter(pk__gt=OuterRef("pk"))))).order_by("pk")


RULES = (
    Rule(
        Finding,
        _("Findings of checks"),
        "SLIPWAY_KEEP_STORE_RUNS_DAYS",
        _findings,
        kept=_("Files that are damaged or missing stay."),
    ),
    Rule(
        Check,
        _("Integrity checks"),
        "SLIPWAY_KEEP_STORE_RUNS_DAYS",
        _checks,
        kept=_("The last check stays, and those whose findings are kept."),
    ),
    Rule(
        Collection,
        _("Garbage collections"),
        "SLIPWAY_KEEP_STORE_RUNS_DAYS",
        _collections,
        kept=_("The last collection stays."),
    ),
)
