from django.urls import path

from graphs import views

urlpatterns = [
    path("graphs/", views.graph_list, name="graphs"),
    path("graphs/<int:pk>/", views.graph_page, name="graph"),
    path("graphs/<int:pk>/+<str:deed>/", views.act, name="graph-act"),
    path("graphs/<int:pk>/profile/", views.profile_page, name="graph-profile"),
    path("graphs/<int:pk>/plans/<int:plan>/", views.plan_page, name="graph-plan"),
    path("graphs/<int:pk>/plans/<int:plan>/+start/", views.start, name="start-graph-plan"),
]
