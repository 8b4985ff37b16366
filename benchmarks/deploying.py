"""The deployment of a run, as the services of clusters make and remove it."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any
from urllib.parse import urlsplit

from django.utils.translation import gettext as _

from benchmarks import selectors
from benchmarks.models import BenchmarkRun
from benchmarks.selectors import OP_KEY, gpus_per_worker
from benchmarks.service_target import ServiceTarget
from benchmarks.spec import DEFAULT_SLOTS, DEPLOYMENT_SETTINGS, spec_of
from clusters import selectors as fleet
from clusters.backends.base import ClusterBackend
from clusters.backends.extras import ClusterJobPlace, SupportsClusterJobs
from clusters.backends.kinds import abilities_of
from clusters.errors import DeploymentMissing
from clusters.models import Cluster, Deployment, Gpu, Worker
from clusters.services import deployments
from clusters.states import DeploymentState
from common.actor import Actor
from images.models import RuntimeImage

EXPORTER_PORTS = (9100, 9400)
"""Ports of a machine where node_exporter and dcgm-exporter listen unless they are told otherwise."""
ACTOR = Actor.system("benchmark")


def target_of(run: BenchmarkRun) -> ServiceTarget | None:
    """Return the running service that the run loads; None: it deploys its own server."""
    return spec_of(run.benchmark.spec).target


def deployment_name(run: BenchmarkRun) -> str:
    """Raises DeploymentMissing when the service that it loads runs no more, or in two versions."""
    target = target_of(run)
    if target is None:
        return f"bench-{run.benchmark_id}-{run.position}"
    found = selectors.serving_alone(target.service, run.benchmark.team)
    if found is None or found.version_id != run.cell.version_id:
        raise DeploymentMissing(
            _("Service %(service)s does not run %(version)s alone any more.")
            % {"service": target.service, "version": run.cell.version}
        )
    return found.name


def lease_key(run: BenchmarkRun) -> str:
    """Return the key of what a run has to itself: the kind of machines in its cluster, or a service."""
    if target := target_of(run):
        return f"service/{target.service}"
    return f"{run.benchmark.cluster_id}/{run.cell.machine}"


def ensure(run: BenchmarkRun) -> None:
    """Raises what `ensure_deployment` raises."""
    if target_of(run):
        return
    cell, cluster = run.cell, run.benchmark.cluster
    spec = spec_of(run.benchmark.spec)
    gpus = gpus_per_worker(cell.parameters, cluster, spec.device)
    labels = spec.space.machines.get(cell.machine, {})
    deployments.ensure_deployment(
        actor=ACTOR,
        name=deployment_name(run),
        op_key=f"{OP_KEY}{run.pk}",
        cluster=cluster,
        team=run.benchmark.team,
        service=f"bench-{run.benchmark_id}",
        version=cell.version,
        replicas=int(cell.parameters.get("replicas", 1)),
        slots=int(cell.parameters.get("slots", DEFAULT_SLOTS)),
        engine=cell.engine,
        device=spec.device,
        resources={"gpus_per_worker": gpus} if gpus > 1 else {},
        pod={"node_selector": dict(labels)} if labels else {},
        settings={name: value for name, value in cell.parameters.items() if name not in DEPLOYMENT_SETTINGS},
        image=cell.image,
    )


def remove(run: BenchmarkRun) -> bool:
    """Ask for the removal of the run's deployment, if it made one; return whether it is gone."""
    if target_of(run):
        return True
    name = run.deployment or deployment_name(run)
    with suppress(DeploymentMissing):
        deployments.remove_deployment(actor=ACTOR, name=name, reason=f"The end of {run}.")
        return fleet.deployment_state(name)[0] == DeploymentState.REMOVED
    return True


def job_place(cluster: Cluster, backend_of: Callable[[Cluster], ClusterBackend]) -> ClusterJobPlace | None:
    """Return where the cluster runs load generators; None: they are processes beside the control plane."""
    if not abilities_of(cluster.kind).has_pods:
        return None
    backend = backend_of(cluster)
    return backend.job_place() if isinstance(backend, SupportsClusterJobs) else None


def addresses(name: str) -> list[str]:
    return [f"http://{host}:{port}" for host, port in fleet.endpoints(name).addresses]


def restarts_since(run: BenchmarkRun) -> int:
    """Return how many workers were started again, or came in the place of others, since it was ready."""
    with suppress(DeploymentMissing):
        status = fleet.deployment_status(run.deployment)
        began = run.environment
        gone = set(began.get("workers", ())) - {worker.name for worker in status.workers}
        return max(len(gone), status.restarts - int(began.get("restarts", 0)))
    return 0


def system_sources(name: str, servers: Sequence[str]) -> dict[str, Any]:
    """Return where the load generator reads system figures: see `load.system.SystemSources`.

    Servers on the generator's own machine are read there; other machines by their exporters.
    """
    if all(urlsplit(one).hostname in ("127.0.0.1", "::1") for one in servers):
        return {"is_local": True}
    machines = Worker.objects.filter(deployment__name=name, node__isnull=False).exclude(node__address="")
    found = machines.values_list("node__address", "node__name").distinct()
    return {
        "exporters": {
            f"http://{f'[{address}]' if ':' in address else address}:{port}/metrics": machine
            for address, machine in found
            for port in EXPORTER_PORTS
        }
    }


def environment(run: BenchmarkRun, name: str) -> dict[str, Any]:
    """Return the machines, GPUs, engine, image and flags that the run is measured with."""
    status = fleet.deployment_status(name)
    made = Deployment.objects.select_related("cluster").get(name=name)
    workers = Worker.objects.filter(deployment__name=name, node__isnull=False)
    nodes = list(workers.values_list("node", "node__name").order_by("node__name").distinct())
    gpus = Gpu.objects.filter(node__in=[pk for pk, _ in nodes]).values_list("name", "driver").order_by("pk")
    spec = spec_of(run.benchmark.spec)
    per_worker = gpus_per_worker(run.cell.parameters, run.benchmark.cluster, spec.device)
    if spec.target:
        per_worker = 0  # They are the service's.
    return {
        "machines": [node for _, node in nodes],
        "gpu": next((f"{gpu}, driver {driver}" for gpu, driver in gpus), "") if per_worker else "",
        "gpus": per_worker * int(run.cell.parameters.get("replicas", 1)),
        "engine": f"{made.engine} {_engine_version(made)}".strip(),
        "image": status.image_reference,
        "restarts": status.restarts,
        "workers": sorted(worker.name for worker in status.workers),
        "flags": {**made.settings, "slots": made.slots, "replicas": made.replicas, "device": made.device},
    }


def _engine_version(made: Deployment) -> str:
    """Return the release of its engine: as its image says, or as it is installed beside the control plane."""
    if digest := made.image_reference.partition("@")[2]:
        found = RuntimeImage.objects.filter(digest=digest).values_list("engine_version", flat=True)
        return found.first() or ""
    if made.engine == "transformers" and not abilities_of(made.cluster.kind).has_pods:
        with suppress(PackageNotFoundError):
            return version(made.engine)
    return ""
