"""Raw rows, for administrators of the installation to read. Services write them, with rules and audit."""

from django.contrib import admin

from common.admin import ReadOnly
from images.models import ImagePullFailure, ImageTrial, RuntimeImage


@admin.register(RuntimeImage)
class RuntimeImageAdmin(ReadOnly):
    list_display = ("name", "engine", "engine_version", "cuda_version", "team", "digest", "deprecated_at")
    list_filter = ("engine",)
    search_fields = ("name", "repository", "digest")


@admin.register(ImageTrial)
class ImageTrialAdmin(ReadOnly):
    list_display = ("image", "gpu", "driver", "architecture", "outcome", "by", "at")
    list_filter = ("outcome",)


@admin.register(ImagePullFailure)
class ImagePullFailureAdmin(ReadOnly):
    list_display = ("image", "cluster", "reason", "since", "at")
    list_filter = ("cluster",)
