from django.urls import path
from rest_framework.routers import SimpleRouter

from trust.api import views as signatures

router = SimpleRouter(use_regex_path=False)
router.register("trusted-keys", signatures.TrustedKeys, basename="trusted-key")

urlpatterns = [
    path("signature-policies/<str:team>/", signatures.POLICY, name="signature-policy"),
    path("signing/", signatures.Signing.as_view({"get": "show"}), name="signing"),
    *router.urls,
]
