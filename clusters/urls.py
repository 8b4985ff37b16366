from django.urls import path

from clusters import views

urlpatterns = [
    path("fleet/", views.machines, name="fleet"),
    path("fleet/workers/", views.workers, name="fleet-workers"),
    path("fleet/workers/<str:name>/", views.worker, name="fleet-worker"),
    path("fleet/deployments/", views.deployments, name="fleet-deployments"),
    path("fleet/deployments/<str:name>/", views.deployment, name="fleet-deployment"),
]
