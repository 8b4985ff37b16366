from django.urls import path

from clusters.views import adding, clusters, drains, fleet

urlpatterns = [
    path("fleet/", fleet.machines, name="fleet"),
    path("fleet/nodes/<int:pk>/", fleet.node, name="fleet-node"),
    path("fleet/nodes/<int:pk>/+cordon/", fleet.cordon, name="cordon-node"),
    path("fleet/nodes/<int:pk>/+uncordon/", fleet.uncordon, name="uncordon-node"),
    path("fleet/nodes/<int:pk>/+drain/", drains.drain, name="drain-node"),
    path("fleet/drains/<int:pk>/", drains.drain_page, name="fleet-drain"),
    path("fleet/drains/<int:pk>/+cancel/", drains.cancel, name="cancel-drain"),
    path("fleet/nodes/<int:pk>/+agent-token/", clusters.agent_token, name="agent-token"),
    path("fleet/nodes/<int:pk>/+remove-agent/", clusters.remove_agent, name="remove-agent"),
    # A plus sign begins no name of a cluster.
    path("fleet/clusters/", adding.clusters, name="fleet-clusters"),
    path("fleet/clusters/+new/", adding.new_cluster, name="new-cluster"),
    path("fleet/clusters/<str:name>/", clusters.cluster, name="fleet-cluster"),
    path("fleet/clusters/<str:name>/+settings/", adding.cluster_settings, name="cluster-settings"),
    path("fleet/clusters/<str:name>/+check/", adding.check, name="check-cluster"),
    path("fleet/clusters/<str:name>/+remove/", adding.remove, name="remove-cluster"),
    path("fleet/clusters/<str:name>/+move/", clusters.move, name="move-cluster"),
    path("fleet/past/", fleet.past, name="fleet-past"),
    path("fleet/workers/", fleet.workers, name="fleet-workers"),
    path("fleet/workers/<str:name>/", fleet.worker, name="fleet-worker"),
    path("fleet/workers/<str:name>/log/", fleet.worker_log_file, name="worker-log-file"),
    path("fleet/workers/<str:name>/+profile/", fleet.profile, name="profile-worker"),
    path("fleet/deployments/", fleet.deployments, name="fleet-deployments"),
    path("fleet/deployments/<str:name>/", fleet.deployment, name="fleet-deployment"),
    path("fleet/deployments/<str:name>/+take-back/", fleet.take_back, name="take-back-scale"),
]
