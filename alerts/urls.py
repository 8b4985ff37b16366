from django.urls import path

from alerts import views

urlpatterns = [
    path("alerts/", views.overview, name="alerts"),
    path("alerts/history/", views.history, name="alert-history"),
    path("alerts/checks/", views.check_list, name="alert-checks"),
    path("alerts/here/", views.here, name="alerts-here"),
    path("alerts/groups/<int:pk>/", views.group, name="alert-group"),
    path("alerts/groups/<int:pk>/acknowledge/", views.acknowledge_all, name="acknowledge-alerts"),
    path("alerts/groups/<int:pk>/silence/", views.silence_all, name="silence-alerts"),
    path("alerts/<int:pk>/", views.one, name="alert"),
    path("alerts/<int:pk>/acknowledge/", views.acknowledge, name="acknowledge-alert"),
    path("alerts/<int:pk>/silence/", views.silence, name="silence-alert"),
    path("alerts/silences/<int:pk>/end/", views.end_silence, name="end-silence"),
    path("alerts/checks/<str:name>/turn/", views.turn, name="turn-check"),
]
