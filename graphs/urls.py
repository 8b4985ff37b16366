from django.urls import path

from graphs import views

urlpatterns = [
    path("graphs/", views.graph_list, name="graphs"),
    path("graphs/<int:pk>/", views.graph_page, name="graph"),
    path("graphs/<int:pk>/changes/", views.changes_page, name="graph-changes"),
    path("graphs/<int:pk>/+<str:deed>/", views.act, name="graph-act"),
    path("graphs/<int:pk>/items/", views.items_page, name="graph-items"),
    path("graphs/<int:pk>/items/<str:item>/", views.item_page, name="graph-item"),
    path("graphs/<int:pk>/items/<str:item>/+retry/", views.retry, name="retry-graph-item"),
    path("graphs/<int:pk>/items/<str:item>/<str:of>/", views.content, name="graph-item-content"),
    path("graphs/<int:pk>/ray/", views.ray_page, name="graph-ray"),
    path("graphs/<int:pk>/ray/<str:cluster>/<str:name>/+abort/", views.abort_ray, name="abort-graph-ray"),
    path("graphs/<int:pk>/timeline/", views.timeline_page, name="graph-timeline"),
    path("graphs/<int:pk>/profile/", views.profile_page, name="graph-profile"),
    path("graphs/<int:pk>/plans/<int:plan>/", views.plan_page, name="graph-plan"),
    path("graphs/<int:pk>/plans/<int:plan>/+start/", views.start, name="start-graph-plan"),
]
