from django.urls import path
from rest_framework.routers import SimpleRouter

from identity.api import federation, rules

router = SimpleRouter(use_regex_path=False)
router.register("group-rules", rules.GroupRules, basename="group-rule")
router.register("service-accounts", federation.ServiceAccounts, basename="service-account")
router.register("federated-credentials", federation.FederatedCredentials, basename="federated-credential")

urlpatterns = [
    path("tokens/exchange/", federation.TokenExchange.as_view({"post": "exchange"}), name="token-exchange"),
    *router.urls,
]
