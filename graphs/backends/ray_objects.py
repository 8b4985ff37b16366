"""RayJob and RayService of a graph with its plan. Pure.

All sizes are fixed: as many worker pods as the plan's processes fill, and no autoscaler.
"""

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import gettext as _

from graphs.errors import RayOrderInvalid
from serving.graphs.description import GraphDescription
from serving.graphs.plan import GraphPlan
from serving.graphs.ray.sizes import PLAN_VARIABLE, RAY_VERSION, actor_sizes, pool_sizes

Object = dict[str, Any]
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
GRAPH_LABEL = "slipway.io/graph"
GPU = "nvidia.com/gpu"
KEPT_SECONDS = 600
"""Of the Ray cluster after its job, for whoever reads its logs."""
HEAD_CORES, HEAD_MEMORY = 1, "4Gi"
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - Ray's object store


@dataclass(frozen=True, kw_only=True)
class RayPods:
    """Size of each worker pod."""

    cores: int
    memory_gib: int
    gpus: int = 0


@dataclass(frozen=True, kw_only=True)
class RayOrder:
    """A graph for Ray on a cluster. `image`: with Ray, Slipway and the graph's packages. `file`: the graph's,
    in the image or on a volume. `source` and `out` of a job: paths that all pods share. `volumes`: claims by
    the path where they are mounted. `queue`: Kueue's; empty: none."""

    name: str
    namespace: str
    graph: GraphDescription
    plan: GraphPlan
    image: str
    file: str
    pods: RayPods
    source: str = ""
    out: str = ""
    queue: str = ""
    volumes: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_job(self) -> bool:
        return bool(self.source)


def worker_pods(order: RayOrder) -> int:
    """Pods that hold all processes of the plan, each in one: the largest first, into the first pod with room.
    Raises RayOrderInvalid for a process larger than a pod."""
    sizes = actor_sizes(order.plan)
    pools = pool_sizes(order.graph, order.plan)
    counts = (
        [(node.task, pools[node.name]) for node in order.graph.nodes]
        if order.is_job
        else [(name, one.replicas) for name, one in order.plan.tasks.items()]
    )
    actors = [(sizes[task].gpus, sizes[task].cpus, task) for task, count in counts for _ in range(count)]
    free: list[list[float]] = []
    for gpus, cpus, task in sorted(actors, reverse=True):
        if cpus > order.pods.cores or gpus > order.pods.gpus:
            raise RayOrderInvalid(
                _(
                    "A process of %(task)s needs %(cores)s cores and %(gpus)s GPUs; a pod has %(pod_cores)s "
                    "and %(pod_gpus)s: give larger pods."
                )
                % {
                    "task": task,
                    "cores": cpus,
                    "gpus": f"{gpus:g}",
                    "pod_cores": order.pods.cores,
                    "pod_gpus": order.pods.gpus,
                }
            )
        room = next((one for one in free if one[0] >= gpus - 1e-9 and one[1] >= cpus), None)
        if room is None:
            room = [float(order.pods.gpus), float(order.pods.cores)]
            free.append(room)
        room[0], room[1] = room[0] - gpus, room[1] - cpus
    return len(free)


def ray_job(order: RayOrder) -> Object:
    """Raises RayOrderInvalid."""
    command = ["python", "-m", "serving.graphs.ray", "run", order.file, order.source, f"--out={order.out}"]
    variables = {PLAN_VARIABLE: json.dumps(order.plan.document(), separators=(",", ":"))}
    spec = {
        "entrypoint": shlex.join([*command, "--address=auto"]),
        # YAML reads JSON.
        "runtimeEnvYAML": json.dumps({"env_vars": variables}),
        "submissionMode": "K8sJobMode",
        "backoffLimit": 0,
        "shutdownAfterJobFinishes": True,
        "ttlSecondsAfterFinished": KEPT_SECONDS,
        # Kueue starts it; without Kueue nobody would.
        "suspend": bool(order.queue),
        "rayClusterSpec": _cluster(order),
    }
    return _object(order, "RayJob", spec)


def ray_service(order: RayOrder) -> Object:
    """Raises RayOrderInvalid."""
    arguments = {"file": order.file, "plan": json.dumps(order.plan.document(), separators=(",", ":"))}
    application = {
        "name": order.graph.name,
        "route_prefix": "/",
        "import_path": "serving.graphs.ray.online:application",
        "args": arguments,
    }
    spec = {
        "serveConfigV2": json.dumps({"applications": [application]}),
        "rayClusterConfig": _cluster(order),
    }
    return _object(order, "RayService", spec)


def _object(order: RayOrder, kind: str, spec: Object) -> Object:
    labels = {GRAPH_LABEL: order.graph.name[:63]} | ({QUEUE_LABEL: order.queue} if order.queue else {})
    metadata = {"name": order.name, "namespace": order.namespace, "labels": labels}
    return {"apiVersion": "ray.io/v1", "kind": kind, "metadata": metadata, "spec": spec}


def _cluster(order: RayOrder) -> Object:
    count, pods = worker_pods(order), order.pods
    worker: Object = {"cpu": str(pods.cores), "memory": f"{pods.memory_gib}Gi"}
    worker |= {GPU: str(pods.gpus)} if pods.gpus else {}
    head = {"cpu": str(HEAD_CORES), "memory": HEAD_MEMORY}
    return {
        "rayVersion": RAY_VERSION,
        "enableInTreeAutoscaling": False,
        # The head runs no task: what fills it up takes Ray's own state with it.
        "headGroupSpec": {
            "rayStartParams": {"num-cpus": "0"},
            "template": _template(order, "ray-head", head),
        },
        "workerGroupSpecs": [
            {
                "groupName": "tasks",
                "replicas": count,
                "minReplicas": count,
                "maxReplicas": count,
                "rayStartParams": {},
                "template": _template(order, "ray-worker", worker),
            }
        ],
    }


def _template(order: RayOrder, name: str, resources: Mapping[str, str]) -> Object:
    volumes: list[Object] = [{"name": "shared-memory", "emptyDir": {"medium": "Memory"}}]
    mounts: list[Object] = [{"name": "shared-memory", "mountPath": SHARED_MEMORY}]
    for number, (path, claim) in enumerate(sorted(order.volumes.items())):
        volumes.append({"name": f"claim-{number}", "persistentVolumeClaim": {"claimName": claim}})
        mounts.append({"name": f"claim-{number}", "mountPath": path})
    container = {
        "name": name,
        "image": order.image,
        "resources": {"requests": dict(resources), "limits": dict(resources)},
        "volumeMounts": mounts,
    }
    return {"spec": {"containers": [container], "volumes": volumes}}
