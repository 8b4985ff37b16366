from rest_framework.routers import SimpleRouter

from releases.api.delegations import Delegations
from releases.api.environments import Environments
from releases.api.plans import PlanCollection
from releases.api.policies import TeamPolicies
from releases.api.releases import Releases
from releases.api.services import Services

router = SimpleRouter(use_regex_path=False)
router.register("services", Services, basename="service")
router.register("releases", Releases, basename="release")
router.register("release-policies", TeamPolicies, basename="release-policy")
router.register("delegations", Delegations, basename="delegation")
router.register("environments", Environments, basename="environment")
router.register("plans", PlanCollection, basename="plan")

urlpatterns = router.urls
