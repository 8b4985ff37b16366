from rest_framework.routers import SimpleRouter

from capacity.api import views, workload_views

router = SimpleRouter(use_regex_path=False)
router.register("capacity/pools", views.CapacityPools, basename="pool")
router.register("capacity/pools/<int:pool>/members", views.PoolMembers, basename="pool-member")
router.register("capacity/groups", views.CapacityGroups, basename="capacity-groups")
router.register("capacity/queues", views.CapacityQueues, basename="capacity-queues")
router.register("capacity/policies", views.CapacityPolicies, basename="capacity-policy")
router.register("capacity/switch-times", views.SwitchTimes, basename="switch-time")
router.register("capacity/layouts", views.CardLayouts, basename="card-layout")
router.register("capacity/plans", views.CapacityPlans, basename="capacity-plan")
router.register("capacity/stop", views.CapacityStopSwitch, basename="capacity-stop")
router.register("capacity/workloads", workload_views.Workloads, basename="workload")
router.register("capacity/allocations", workload_views.Allocations, basename="allocation")

urlpatterns = router.urls
