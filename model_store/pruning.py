"""Pruning of the store's history."""

from datetime import datetime

from django.db.models import Exists, OuterRef, QuerySet
from django.utils.translation import gettext_lazy as _

from common.reconcile.pruning import PruningRule, at_rest
from model_store.models import Check, Collection, CorruptBlob
from model_store.states import OPEN_CORRUPT_BLOBS, RunState


def _corrupt_blobs(before: datetime) -> QuerySet[CorruptBlob]:
    rows = CorruptBlob.objects.filter(ended_at__lt=before, is_held=False)
    return at_rest(rows.exclude(state__in=OPEN_CORRUPT_BLOBS)).order_by("pk")


def _checks(before: datetime) -> QuerySet[Check]:
    """But for the last, and those whose corrupt blobs are still there."""
    rows = Check.objects.filter(ended_at__lt=before).exclude(state=RunState.RUNNING)
    later = Exists(Check.objects.filter(pk__gt=OuterRef("pk")))
    found = Exists(CorruptBlob.objects.filter(found_by=OuterRef("pk")))
    return at_rest(rows.filter(later).exclude(found)).order_by("pk")


def _collections(before: datetime) -> QuerySet[Collection]:
    """But for the last."""
    rows = Collection.objects.filter(ended_at__lt=before).exclude(state=RunState.RUNNING)
    return at_rest(rows.filter(Exists(Collection.objects.filter(pk__gt=OuterRef("pk"))))).order_by("pk")


RULES = (
    PruningRule(
        CorruptBlob,
        _("Findings of checks"),
        "SLIPWAY_KEEP_STORE_RUNS_DAYS",
        _corrupt_blobs,
        kept=_("Files that are damaged or missing stay."),
    ),
    PruningRule(
        Check,
        _("Integrity checks"),
        "SLIPWAY_KEEP_STORE_RUNS_DAYS",
        _checks,
        kept=_("The last check stays, and those whose findings are kept."),
    ),
    PruningRule(
        Collection,
        _("Garbage collections"),
        "SLIPWAY_KEEP_STORE_RUNS_DAYS",
        _collections,
        kept=_("The last collection stays."),
    ),
)
