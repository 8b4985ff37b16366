"""The kinds of objects that Slipway asks a cluster for."""

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Resource:
    group: str
    """Empty: the core group."""
    version: str
    kind: str
    plural: str
    is_namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def root(self) -> str:
        """Return the path of its group and version: `/apis/apps/v1`."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


class Ref(NamedTuple):
    """A reference to one object."""

    resource: Resource
    name: str
    namespace: str = ""

    def __str__(self) -> str:
        return (
            f"{self.resource} {self.namespace}/{self.name}"
            if self.namespace
            else f"{self.resource} {self.name}"
        )


CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps")
EVENTS = Resource("", "v1", "Event", "events")
NAMESPACES = Resource("", "v1", "Namespace", "namespaces", is_namespaced=False)
NODES = Resource("", "v1", "Node", "nodes", is_namespaced=False)
PODS = Resource("", "v1", "Pod", "pods")
RESOURCE_QUOTAS = Resource("", "v1", "ResourceQuota", "resourcequotas")
SECRETS = Resource("", "v1", "Secret", "secrets")
SERVICES = Resource("", "v1", "Service", "services")
SERVICE_ACCOUNTS = Resource("", "v1", "ServiceAccount", "serviceaccounts")
DEPLOYMENTS = Resource("apps", "v1", "Deployment", "deployments")
REPLICA_SETS = Resource("apps", "v1", "ReplicaSet", "replicasets")
JOBS = Resource("batch", "v1", "Job", "jobs")
LEASES = Resource("coordination.k8s.io", "v1", "Lease", "leases")
DISRUPTION_BUDGETS = Resource("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
STATEFUL_SETS = Resource("apps", "v1", "StatefulSet", "statefulsets")
PRIORITY_CLASSES = Resource(
    "scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", is_namespaced=False
)
LEADER_WORKER_SETS = Resource("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet", "leaderworkersets")
STORAGE_CLASSES = Resource("storage.k8s.io", "v1", "StorageClass", "storageclasses", is_namespaced=False)
VOLUME_CLAIMS = Resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
GATEWAY_CLASSES = Resource(
    "gateway.networking.k8s.io", "v1", "GatewayClass", "gatewayclasses", is_namespaced=False
)
GATEWAYS = Resource("gateway.networking.k8s.io", "v1", "Gateway", "gateways")
HTTP_ROUTES = Resource("gateway.networking.k8s.io", "v1", "HTTPRoute", "httproutes")
RAY_CLUSTERS = Resource("ray.io", "v1", "RayCluster", "rayclusters")
RAY_JOBS = Resource("ray.io", "v1", "RayJob", "rayjobs")
RAY_SERVICES = Resource("ray.io", "v1", "RayService", "rayservices")
LOCAL_QUEUES = Resource("kueue.x-k8s.io", "v1beta2", "LocalQueue", "localqueues")
WORKLOADS = Resource("kueue.x-k8s.io", "v1beta2", "Workload", "workloads")
CLUSTER_QUEUES = Resource("kueue.x-k8s.io", "v1beta2", "ClusterQueue", "clusterqueues", is_namespaced=False)
COHORTS = Resource("kueue.x-k8s.io", "v1beta2", "Cohort", "cohorts", is_namespaced=False)
RESOURCE_FLAVORS = Resource(
    "kueue.x-k8s.io", "v1beta2", "ResourceFlavor", "resourceflavors", is_namespaced=False
)
TOPOLOGIES = Resource("kueue.x-k8s.io", "v1beta2", "Topology", "topologies", is_namespaced=False)
WORKLOAD_PRIORITIES = Resource(
    "kueue.x-k8s.io", "v1beta2", "WorkloadPriorityClass", "workloadpriorityclasses", is_namespaced=False
)
DEVICE_CLASSES = Resource("resource.k8s.io", "v1", "DeviceClass", "deviceclasses", is_namespaced=False)
RESOURCE_CLAIMS = Resource("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims")
RESOURCE_CLAIM_TEMPLATES = Resource(
    "resource.k8s.io", "v1", "ResourceClaimTemplate", "resourceclaimtemplates"
)
RESOURCE_SLICES = Resource("resource.k8s.io", "v1", "ResourceSlice", "resourceslices", is_namespaced=False)
INFERENCE_POOLS = Resource("inference.networking.k8s.io", "v1", "InferencePool", "inferencepools")
BENCHMARKS = Resource("slipway.io", "v1alpha1", "Benchmark", "benchmarks")
"""Our own, where a cluster has its definition: deploy/benchmarks."""

BY_KIND = {(one.api_version, one.kind): one for one in list(vars().values()) if isinstance(one, Resource)}
"""By `apiVersion` and `kind` of an object."""
