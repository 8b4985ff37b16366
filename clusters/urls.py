from django.urls import path

from clusters import views

urlpatterns = [
    path("fleet/", views.machines, name="fleet"),
    path("fleet/nodes/<int:pk>/", views.node, name="fleet-node"),
    path("fleet/nodes/<int:pk>/+cordon/", views.cordon, name="cordon-node"),
    path("fleet/nodes/<int:pk>/+uncordon/", views.uncordon, name="uncordon-node"),
    path("fleet/workers/", views.workers, name="fleet-workers"),
    path("fleet/workers/<str:name>/", views.worker, name="fleet-worker"),
    path("fleet/deployments/", views.deployments, name="fleet-deployments"),
    path("fleet/deployments/<str:name>/", views.deployment, name="fleet-deployment"),
]
