"""Raw rows, for administrators of the installation to read. Services write them, with rules and audit."""

from django.contrib import admin

from common.admin import ReadOnly
from gpu_health.models import Finding, RuleChange, StoredReading


@admin.register(StoredReading)
class StoredReadingAdmin(ReadOnly):
    list_display = ("node", "fault", "source", "kind", "gpu_bus_id", "at")
    list_filter = ("source", "kind")
    search_fields = ("fault", "raw", "gpu_bus_id", "gpu_uuid")


@admin.register(Finding)
class FindingAdmin(ReadOnly):
    list_display = ("node", "fault", "device", "severity", "outcome", "state", "last_at")
    list_filter = ("state", "severity", "outcome")
    search_fields = ("fault", "device", "raw")


@admin.register(RuleChange)
class RuleChangeAdmin(ReadOnly):
    list_display = ("name", "enabled", "mode", "changed_by", "changed_at")
