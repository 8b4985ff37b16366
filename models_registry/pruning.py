"""What of the registry's history is deleted once it has been kept for long enough.

Versions, and the moves of versions and aliases, stay for good.
"""

from datetime import datetime

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils.translation import gettext_lazy as _

from common.reconcile.pruning import Rule, at_rest
from models_registry.models import Check, Collection, Export, Finding, HubSync, Upload
from models_registry.states import (
    LIVE_UPLOADS,
    OPEN_EXPORTS,
    OPEN_FINDINGS,
    OPEN_SYNCS,
    ExportState,
    RunState,
    UploadState,
)


def _uploads(before: datetime) -> QuerySet[Upload]:
    """That made no version: one that did tells where it came from."""
    rows = Upload.objects.filter(ended_at__lt=before, is_held=False)
    return at_rest(rows.exclude(state__in={*LIVE_UPLOADS, UploadState.DONE})).order_by("pk")


def _syncs(before: datetime) -> QuerySet[HubSync]:
    """That are neither their source's last, nor the last that looked at their version's commit."""
    rows = at_rest(HubSync.objects.filter(ended_at__lt=before).exclude(state__in=OPEN_SYNCS))
    later = HubSync.objects.filter(pk__gt=OuterRef("pk"))
    of_source = Exists(later.filter(source=OuterRef("source")))
    of_version = Q(version=None) | Exists(later.filter(version=OuterRef("version")))
    return rows.filter(of_source, of_version).order_by("pk")


def _exports(before: datetime) -> QuerySet[Export]:
    """That did not get there, or of which there is a later one of the version to the same place."""
    rows = Export.objects.filter(ended_at__lt=before, is_held=False).exclude(state__in=OPEN_EXPORTS)
    place = {name: OuterRef(name) for name in ("version", "endpoint", "repo_id", "branch")}
    later = Export.objects.filter(pk__gt=OuterRef("pk"), state=ExportState.DONE, **place)
    return at_rest(rows.filter(~Q(state=ExportState.DONE) | Exists(later))).order_by("pk")


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
        Upload,
        _("Uploads"),
        "SLIPWAY_KEEP_UPLOADS_DAYS",
        _uploads,
        kept=_("Uploads of which a version was made stay."),
    ),
)
HUB_RULES = (
    Rule(
        HubSync,
        _("Hub syncs"),
        "SLIPWAY_KEEP_SYNCS_DAYS",
        _syncs,
        kept=_("The last sync of each source and of each version stays."),
    ),
    Rule(
        Export,
        _("Exports"),
        "SLIPWAY_KEEP_EXPORTS_DAYS",
        _exports,
        kept=_("The last successful export of a version to each destination stays."),
    ),
)
STORE_RULES = (
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
