from django.urls import path
from rest_framework.routers import SimpleRouter

from models_registry.api import aliases, cards, evaluations, exemptions, retention, uploads, views

router = SimpleRouter(use_regex_path=False)
router.register("models", views.Models, basename="model")
router.register("models/<str:model>/versions", views.Versions, basename="version")
router.register("models/<str:model>/uploads", uploads.Uploads, basename="upload")
router.register("models/<str:model>/aliases", aliases.Aliases, basename="alias")
router.register("uploads", uploads.AnyUploads, basename="any-upload")
router.register("versions", views.AnyVersions, basename="any-version")
router.register("code-exemptions", exemptions.CodeExemptions, basename="code-exemption")

urlpatterns = [
    path("models/<str:model>/history/", aliases.ModelHistory.as_view({"get": "list"}), name="model-history"),
    path(
        "models/<str:model>/aliases/<str:alias>/history/",
        aliases.AliasHistory.as_view({"get": "list"}),
        name="alias-history",
    ),
    path("models/<str:model>/versions/<str:version>/card/", cards.ONE, name="card"),
    path("models/<str:model>/versions/<str:version>/evaluations/", evaluations.ONE, name="evaluations"),
    path(
        "models/<str:model>/versions/<str:version>/evaluations/history/",
        evaluations.HISTORY,
        name="evaluation-history",
    ),
    path("models/<str:model>/retention/", retention.ONE, name="retention"),
    path("models/<str:model>/retention/preview/", retention.PREVIEW, name="retention-preview"),
    path("models/<str:model>/retention/apply/", retention.APPLY, name="retention-apply"),
    path("models/<str:model>/retention/stop/", retention.STOP, name="retention-stop"),
    *router.urls,
]
