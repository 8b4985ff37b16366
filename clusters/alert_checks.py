"""Checks of the fleet."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta

from django.utils.translation import gettext_lazy as _

from clusters import heartbeat_records, metrics, selectors
from clusters.agents import agent_key
from clusters.fleet import WorkerSnapshot
from clusters.gpu_meters import memory_share
from clusters.models import Deployment, Gpu, Node
from clusters.states import Alert, DeploymentState, GpuState, NodeState
from common.alert_checks import AlertCheck, AlertFinding, beyond, measured
from serving.protocol import HOST_DEVICE

GPU_MEMORY_FULL = 0.98
HOST_MEMORY_FULL = 0.95
CREDENTIAL_ENDS_WITHIN_DAYS = 14
PRESSURES = frozenset({"MemoryPressure", "DiskPressure", "PIDPressure"})


def _workers(holds: Callable[[WorkerSnapshot], bool]) -> Callable[[], Iterator[AlertFinding]]:
    def find() -> Iterator[AlertFinding]:
        for cluster in selectors.whole_fleet().clusters:
            for deployment in cluster.deployments:
                for worker in deployment.workers:
                    if holds(worker):
                        yield _about(worker, cluster.row.name)

    return find


def _about(worker: WorkerSnapshot, cluster: str) -> AlertFinding:
    deployment = worker.deployment
    return AlertFinding(
        {
            "cluster": cluster,
            "service": deployment.service,
            "deployment": deployment.name,
            "version": deployment.version_label,
            "worker": worker.row.name,
        },
        address=f"/fleet/workers/{worker.row.name}/",
        team_id=deployment.team_id,
    )


def _failing_deployments() -> Iterable[AlertFinding]:
    rows = Deployment.objects.filter(state=DeploymentState.FAILING).select_related("cluster")
    return [
        AlertFinding(
            {"cluster": row.cluster.name, "service": row.service, "deployment": row.name},
            address=f"/fleet/deployments/{row.name}/",
            team_id=row.team_id,
        )
        for row in rows
    ]


def _machine(node: Node, **labels: str) -> AlertFinding:
    return AlertFinding(
        {"cluster": node.cluster.name, "machine": node.name, **labels},
        address=f"/fleet/nodes/{node.pk}/",
        team_id=node.cluster.team_id,
    )


def _under_pressure() -> Iterable[AlertFinding]:
    rows = Node.objects.exclude(conditions=[]).select_related("cluster")
    return [
        _machine(node, condition=condition["type"])
        for node in rows
        for condition in node.conditions
        if condition.get("type") in PRESSURES and condition.get("status") == "True"
    ]


def _silent_agents() -> Iterable[AlertFinding]:
    return [
        AlertFinding(
            {"cluster": cluster.row.name, "machine": node.row.name},
            address=f"/fleet/nodes/{node.row.pk}/",
            team_id=cluster.row.team_id,
        )
        for cluster in selectors.whole_fleet().clusters
        for node in cluster.nodes
        if node.agent_silent_since is not None
    ]


def _full_gpus() -> Iterator[AlertFinding]:
    """Yield GPUs whose memory is used up, as agents say."""
    cards = list(Gpu.objects.filter(state=GpuState.PRESENT).select_related("node__cluster"))
    readings = _readings({card.node for card in cards})
    for card in cards:
        share = memory_share(readings[card.node_id].get(card.uuid, {}), card.memory_bytes)
        if (share or 0.0) > GPU_MEMORY_FULL:
            yield _machine(card.node, gpu=str(card.index))


def _full_hosts() -> Iterator[AlertFinding]:
    """Yield machines whose memory is used up, as their agents say."""
    nodes = list(Node.objects.filter(state=NodeState.READY).select_related("cluster"))
    readings = _readings(nodes)
    for node in nodes:
        used = readings[node.pk].get(HOST_DEVICE, {}).get("memory_used_ratio", 0.0)
        if used > HOST_MEMORY_FULL:
            yield replace(_machine(node), value=used)


def _readings(nodes: Collection[Node]) -> dict[int, Mapping[str, Mapping[str, float]]]:
    """Return the readings by the machine's id; one question to Redis."""
    keys = {node.pk: agent_key(node.cluster_id, node.uid) for node in nodes}
    known = heartbeat_records.readings_by_agent(list(keys.values()))
    return {pk: known.get(key, {}) for pk, key in keys.items()}


ALERT_CHECKS = (
    AlertCheck(
        name="SlipwayWorkersLost",
        title=_("Worker lost"),
        severity="warning",
        find=_workers(lambda worker: worker.alert == Alert.LOST),
        metric=beyond("workers", by=("cluster",), state="lost"),
        lasts=timedelta(seconds=15),
        note=_("It sends no heartbeats. Its machine or process may be gone; requests go to the others."),
    ),
    AlertCheck(
        name="SlipwayWorkerStuck",
        title=_("Worker stuck"),
        severity="critical",
        find=_workers(lambda worker: worker.alert == Alert.STUCK),
        metric=beyond("workers", by=("cluster",), state="stuck"),
        note=_(
            "All its slots are busy and no request ends. Its page has its log, its profile and its process "
            "or pod: end that, and another one starts."
        ),
    ),
    AlertCheck(
        name="SlipwayWorkerSaturated",
        title=_("Worker saturated: the queue grows"),
        severity="warning",
        find=_workers(lambda worker: worker.alert == Alert.SATURATED),
        metric=beyond("workers", by=("cluster",), state="saturated"),
        lasts=timedelta(minutes=10),
        note=_("It has had no free slot for minutes: add replicas, or lend workers to the service."),
    ),
    AlertCheck(
        name="SlipwayCrashLoop",
        title=_("Worker crashes again and again"),
        severity="critical",
        find=_workers(lambda worker: worker.crashes_again),
        metric=beyond("workers_crashing", by=("cluster",)),
        lasts=timedelta(seconds=30),
        note=_("Its log says why. A release whose workers do so is rolled back; a service needs a person."),
    ),
    AlertCheck(
        name="SlipwayDeploymentFailing",
        title=_("Deployment cannot serve"),
        severity="critical",
        find=_failing_deployments,
        metric=beyond("deployments", by=("cluster",), state="failing"),
        lasts=timedelta(minutes=1),
        note=_("Its page says why its workers are not ready."),
    ),
    AlertCheck(
        name="SlipwayMachinePressure",
        title=_("Machine short of memory, disk or processes"),
        severity="warning",
        find=_under_pressure,
        lasts=timedelta(minutes=1),
        note=_("The kubelet says so and evicts pods. Cordon the machine, or move workers away."),
    ),
    AlertCheck(
        name="SlipwayHostMemoryFull",
        title=_("Memory of a machine used up"),
        severity="critical",
        find=_full_hosts,
        lasts=timedelta(minutes=2),
        note=_("Its agent says so; soon the kernel ends processes. Move workers away, or give them less."),
    ),
    AlertCheck(
        name="SlipwayGpuMemoryFull",
        title=_("Memory of a GPU used up"),
        severity="warning",
        find=_full_gpus,
        lasts=timedelta(minutes=5),
        note=_("The next allocation may fail: lower the batch size or the share of the KV cache."),
    ),
    AlertCheck(
        name="SlipwayAgentSilent",
        title=_("Agent of a machine silent"),
        severity="warning",
        find=_silent_agents,
        metric=beyond("agents_silent", by=("cluster",)),
        lasts=timedelta(minutes=2),
        note=_("Its workers may serve; nobody knows how busy they are."),
    ),
    AlertCheck(
        name="SlipwayRelaySilent",
        title=_("Relay of a cluster silent"),
        severity="warning",
        find=measured(metrics.fleet, "relay_silent", by=("cluster",)),
        lasts=timedelta(minutes=1),
        note=_("Its workers may serve; nobody knows how busy they are."),
    ),
    AlertCheck(
        name="SlipwayClusterTakesNoOrders",
        title=_("Cluster unreachable"),
        severity="warning",
        find=measured(metrics.fleet, "cluster_takes_orders", 1, by=("cluster",), is_below=True),
        lasts=timedelta(minutes=2),
        note=_("What serves there serves on; releases to it stand still and cannot be taken back."),
    ),
    AlertCheck(
        name="SlipwayClusterCredentialExpires",
        title=_("Certificate or token of a cluster expires within 14 days"),
        severity="warning",
        find=measured(
            metrics.credentials,
            "cluster_credential_days",
            CREDENTIAL_ENDS_WITHIN_DAYS,
            by=("cluster", "credential"),
            is_below=True,
        ),
        note=_("Give the cluster a new kubeconfig in its settings. The value is days left."),
    ),
    AlertCheck(
        name="SlipwayClusterRightsMissing",
        title=_("Cluster lacks rights that Slipway needs"),
        severity="warning",
        find=measured(metrics.fleet, "cluster_rights_missing", by=("cluster",)),
        lasts=timedelta(minutes=1),
        note=_("What serves there serves on; what needs the right waits until it is back."),
    ),
)
