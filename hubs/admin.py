"""Raw rows, for administrators of the installation to read. Services write them, with rules and audit."""

from django.contrib import admin

from common.admin import ReadOnly
from hubs.models import Export, HubSource, HubSync


@admin.register(HubSource)
class HubSourceAdmin(ReadOnly):
    list_display = ("repo_id", "ref", "endpoint", "model", "every_seconds", "due_at", "deleted_at")
    list_select_related = ("model",)
    search_fields = ("repo_id", "model__name")


@admin.register(HubSync)
class HubSyncAdmin(ReadOnly):
    list_display = ("source", "state", "commit", "version", "began_at", "ended_at", "stuck_at")
    list_select_related = ("source", "version__model")
    list_filter = ("state",)


@admin.register(Export)
class ExportAdmin(ReadOnly):
    list_display = (
        "version",
        "repo_id",
        "branch",
        "endpoint",
        "state",
        "commit",
        "began_at",
        "ended_at",
        "stuck_at",
    )
    list_select_related = ("version__model",)
    list_filter = ("state",)
    search_fields = ("repo_id", "version__model__name")
