"""What of GPU health is deleted once it has been kept for long enough."""

from datetime import datetime

from django.db.models import QuerySet
from django.utils.translation import gettext_lazy as _

from common.reconcile.pruning import PruningRule
from gpu_health.models import Drill, Finding, GpuCheck, StoredReading


def _readings(before: datetime) -> QuerySet[StoredReading]:
    return StoredReading.objects.filter(received_at__lt=before).order_by("pk")


def _findings(before: datetime) -> QuerySet[Finding]:
    return Finding.objects.filter(ended_at__lt=before).order_by("pk")


def _checks(before: datetime) -> QuerySet[GpuCheck]:
    return GpuCheck.objects.filter(ended_at__lt=before).order_by("pk")


def _drills(before: datetime) -> QuerySet[Drill]:
    return Drill.objects.filter(ended_at__lt=before).order_by("pk")


SETTING = "SLIPWAY_KEEP_GPU_READINGS_DAYS"
RULES = (
    PruningRule(StoredReading, _("GPU readings"), SETTING, _readings),
    PruningRule(GpuCheck, _("GPU checks"), SETTING, _checks, kept=_("Checks under way stay.")),
    PruningRule(Drill, _("GPU drills"), SETTING, _drills, kept=_("Drills under way stay.")),
    PruningRule(Finding, _("GPU findings"), SETTING, _findings, kept=_("Open findings stay.")),
)
