"""Raw rows, for administrators of the installation to read. Services write them, with rules and audit."""

from django.contrib import admin

from common.admin import ReadOnly
from models_registry.models import (
    Alias,
    AliasMove,
    CodeExemption,
    Evaluation,
    Model,
    RetentionRule,
    Upload,
    Version,
    VersionFile,
    VersionMove,
    VersionSignature,
)


@admin.register(Model)
class RegisteredModelAdmin(ReadOnly):
    list_display = ("name", "team", "task", "created_at", "created_by_name", "deleted_at")
    list_select_related = ("team",)
    search_fields = ("name", "task", "team__name")


@admin.register(Version)
class VersionAdmin(ReadOnly):
    list_display = (
        "model",
        "name",
        "state",
        "short_digest",
        "size_bytes",
        "author_name",
        "created_at",
        "stuck_at",
    )
    list_select_related = ("model",)
    list_filter = ("state",)
    search_fields = ("model__name", "name", "digest")


@admin.register(VersionFile)
class VersionFileAdmin(ReadOnly):
    list_display = ("path", "version", "size", "sha256", "format")
    list_select_related = ("version__model",)
    search_fields = ("path", "sha256", "version__model__name")
    show_full_result_count = False


@admin.register(VersionMove)
class VersionMoveAdmin(ReadOnly):
    list_display = ("at", "version", "from_state", "to_state", "by", "reason")
    list_select_related = ("version__model",)


@admin.register(Alias)
class AliasAdmin(ReadOnly):
    list_display = ("name", "model", "version", "moved_at", "moved_by")
    list_select_related = ("model", "version__model")
    search_fields = ("name", "model__name")


@admin.register(AliasMove)
class AliasMoveAdmin(ReadOnly):
    list_display = ("at", "model", "alias", "from_version", "to_version", "by", "reason")
    list_select_related = ("model", "from_version__model", "to_version__model")
    search_fields = ("alias", "model__name")


@admin.register(CodeExemption)
class CodeExemptionAdmin(ReadOnly):
    list_display = ("team", "model", "given_at", "given_by", "until", "ended_at", "reason")
    list_select_related = ("team", "model")


@admin.register(VersionSignature)
class VersionSignatureAdmin(ReadOnly):
    list_display = ("version", "origin", "verdict", "key", "fingerprint", "verified_at")
    list_select_related = ("version__model", "key__team")
    list_filter = ("origin", "verdict")


@admin.register(Evaluation)
class EvaluationAdmin(ReadOnly):
    list_display = ("version", "dataset", "name", "value", "unit", "recorded_at", "recorded_by")
    list_select_related = ("version__model",)
    search_fields = ("name", "dataset", "version__model__name")


@admin.register(RetentionRule)
class RetentionRuleAdmin(ReadOnly):
    list_display = ("model", "keep_last", "keep_days", "is_daily", "due_at", "last_run_at", "stuck_at")
    list_select_related = ("model",)
    search_fields = ("model__name",)


@admin.register(Upload)
class UploadAdmin(ReadOnly):
    list_display = ("id", "model", "state", "size_bytes", "author_name", "touched_at", "stuck_at")
    list_select_related = ("model",)
    list_filter = ("state",)
