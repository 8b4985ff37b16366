"""Raw rows, for administrators of the installation to read. Services write them, with rules and audit."""

from django.contrib import admin

from common.admin import ReadOnly
from trust.models import TrustedKey


@admin.register(TrustedKey)
class TrustedKeyAdmin(ReadOnly):
    list_display = ("team", "name", "fingerprint", "added_at", "added_by", "removed_at", "reason")
    list_select_related = ("team",)
