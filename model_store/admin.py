"""Raw rows, for administrators of the installation to read. Services write them, with rules and audit."""

from django.contrib import admin

from common.admin import ReadOnly
from model_store.models import Check, Collection, CorruptBlob, StorageQuota


@admin.register(Collection)
class CollectionRows(ReadOnly):
    list_display = (
        "began_at",
        "ended_at",
        "state",
        "asked_by_name",
        "deleted_blobs",
        "deleted_bytes",
        "stuck_at",
    )
    list_filter = ("state",)


@admin.register(Check)
class CheckRows(ReadOnly):
    list_display = ("began_at", "ended_at", "state", "asked_by_name", "damaged", "missing", "stuck_at")
    list_filter = ("state",)


@admin.register(CorruptBlob)
class CorruptBlobRows(ReadOnly):
    list_display = ("found_at", "sha256", "size", "state", "detail", "reason", "stuck_at")
    list_filter = ("state",)
    search_fields = ("sha256",)


@admin.register(StorageQuota)
class StorageQuotaRows(ReadOnly):
    list_display = ("team", "limit_bytes", "changed_at", "changed_by_name")
    list_select_related = ("team",)
