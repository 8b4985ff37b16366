from django.urls import path

from clusters import adding_pages, cluster_pages, drain_pages, views

urlpatterns = [
    path("fleet/", views.machines, name="fleet"),
    path("fleet/nodes/<int:pk>/", views.node, name="fleet-node"),
    path("fleet/nodes/<int:pk>/+cordon/", views.cordon, name="cordon-node"),
    path("fleet/nodes/<int:pk>/+uncordon/", views.uncordon, name="uncordon-node"),
    path("fleet/nodes/<int:pk>/+drain/", drain_pages.drain, name="drain-node"),
    path("fleet/drains/<int:pk>/", drain_pages.drain_page, name="fleet-drain"),
    path("fleet/drains/<int:pk>/+cancel/", drain_pages.cancel, name="cancel-drain"),
    path("fleet/nodes/<int:pk>/+agent-token/", cluster_pages.agent_token, name="agent-token"),
    path("fleet/nodes/<int:pk>/+remove-agent/", cluster_pages.remove_agent, name="remove-agent"),
    # A plus sign begins no name of a cluster.
    path("fleet/clusters/", adding_pages.clusters, name="fleet-clusters"),
    path("fleet/clusters/+new/", adding_pages.new_cluster, name="new-cluster"),
    path("fleet/clusters/<str:name>/", cluster_pages.cluster, name="fleet-cluster"),
    path("fleet/clusters/<str:name>/+settings/", adding_pages.cluster_settings, name="cluster-settings"),
    path("fleet/clusters/<str:name>/+check/", adding_pages.check, name="check-cluster"),
    path("fleet/clusters/<str:name>/+remove/", adding_pages.remove, name="remove-cluster"),
    path("fleet/clusters/<str:name>/+move/", cluster_pages.move, name="move-cluster"),
    path("fleet/workers/", views.workers, name="fleet-workers"),
    path("fleet/workers/<str:name>/", views.worker, name="fleet-worker"),
    path("fleet/deployments/", views.deployments, name="fleet-deployments"),
    path("fleet/deployments/<str:name>/", views.deployment, name="fleet-deployment"),
]
