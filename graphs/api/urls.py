from rest_framework.routers import SimpleRouter

from graphs.api import views

router = SimpleRouter(use_regex_path=False)
router.register("graphs", views.Graphs, basename="graph")
router.register("graphs/<int:graph>/profile", views.TaskProfiles, basename="task-profile")
router.register("graphs/<int:graph>/plan", views.GraphPlans, basename="graph-plan")

urlpatterns = router.urls
