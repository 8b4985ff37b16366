"""Every asynchronous edge of the system: which event is handed to whom, after the commit."""

import logging

from clusters.errors import DeploymentMissing
from clusters.events import ClusterMoved, ClusterRegistered, NodeDraining, WorkersChanged
from clusters.models import Cluster, Drain
from clusters.selectors import deployment_name
from clusters.services.deployments import lay_out_again
from common import tasks as doorbell
from common.actor import Actor
from common.audit import Recorded
from common.errors import Missing
from common.events import subscribe, witness
from common.live.touch import touch
from common.reconcile import Due
from controlplane.changes import ChangesTopic, show_changes
from gateway import services as gateway
from gateway.errors import GatewayError
from gpu_health.events import (
    FindingEnded,
    FindingOpened,
    IncidentApprovalAsked,
    IncidentMoved,
    IncidentOpened,
    NodeQuarantined,
    NodeReturned,
)
from gpu_health.models import Incident
from hubs.services import syncs
from model_store.events import BlobRepaired
from models_registry.events import ModelDeleted
from models_registry.services.signature_verification import verify_by
from releases.events import ReleaseMoved, ServiceChanged
from releases.machines import Trouble
from releases.selectors.releases import served_by
from releases.services import machines
from trust.events import KeyTrusted
from trust.models import TrustedKey

logger = logging.getLogger(__name__)


def connect() -> None:
    """Subscribe everything; called once, when Django has loaded the apps."""
    subscribe(Due, doorbell.ring)
    subscribe(WorkersChanged, tell_gateway_of_workers)
    subscribe(WorkersChanged, show_workers)
    subscribe(BlobRepaired, lay_out_repaired)
    subscribe(ReleaseMoved, show_release)
    subscribe(ServiceChanged, show_service)
    subscribe(Recorded, show_changes)
    for moved in (FindingOpened, FindingEnded, IncidentOpened, IncidentMoved, IncidentApprovalAsked):
        subscribe(moved, show_gpu_health)
    subscribe(NodeReturned, let_releases_go_on)
    witness(NodeQuarantined, hold_quarantined)
    witness(NodeDraining, hold_drained)
    witness(ModelDeleted, forget_sources)
    witness(KeyTrusted, verify_signatures)
    witness(ClusterRegistered, give_gateway)
    witness(ClusterMoved, move_gateway)


def give_gateway(event: ClusterRegistered) -> None:
    """In the same transaction: services may be created there at once."""
    for cluster in Cluster.objects.filter(pk=event.cluster_id):
        gateway.ensure_gateway(cluster, actor=Actor.system("bootstrap"))


def move_gateway(event: ClusterMoved) -> None:
    """In the same transaction: its workers listen on that host's loopback address."""
    gateway.follow_cluster(Cluster.objects.get(pk=event.cluster_id))


def tell_gateway_of_workers(event: WorkersChanged) -> None:
    """At once, for latency; what fails here the gateway's own reconciler makes good within seconds."""
    try:
        gateway.sync_workers(deployment_name(event.deployment_id))
    except (GatewayError, DeploymentMissing) as error:
        logger.info("The gateway does not know of changed workers yet: %s", error)
        gateway.look_soon(event.deployment_id)


def show_workers(event: WorkersChanged) -> None:
    """The pages of the service that they work for look again."""
    try:
        service_id, release_id = served_by(deployment_name(event.deployment_id))
    except (DeploymentMissing, Missing):
        return
    touch("service", service_id)
    if release_id is not None:
        touch("release", release_id)


def lay_out_repaired(event: BlobRepaired) -> None:
    """At once, so that a worker that restarts finds its files; one that did not find them asks for them."""
    lay_out_again(event.sha256)


def hold_quarantined(event: NodeQuarantined) -> None:
    """In the same transaction: whoever has workers there is not judged by what a faulty machine does."""
    for one in Incident.objects.select_related("node__cluster").filter(pk=event.incident_id):
        machines.hold_releases(Trouble(one.node, one.title, f"/gpu-health/incidents/{one.pk}/"))


def hold_drained(event: NodeDraining) -> None:
    """In the same transaction: whoever orders a drain, its candidates are not to blame."""
    for one in Drain.objects.select_related("node__cluster").filter(pk=event.drain_id):
        machines.hold_releases(Trouble(one.node, one.reason, f"/fleet/drains/{one.pk}/"))


def let_releases_go_on(event: NodeReturned) -> None:
    machines.look_again(event.node_id)


def forget_sources(event: ModelDeleted) -> None:
    """In the same transaction: no secret outlives the model."""
    syncs.forget_hub_sources(event.model_id)


def verify_signatures(event: KeyTrusted) -> None:
    """In the same transaction: what the key has signed is to be found out."""
    verify_by(TrustedKey.objects.get(pk=event.key_id))


def show_release(event: ReleaseMoved) -> None:
    touch("release", event.release_id)
    show_service(ServiceChanged(event.service_id))


def show_service(event: ServiceChanged) -> None:
    touch("service", event.service_id)
    touch("releases")


def show_gpu_health(_event: object) -> None:
    """Findings come from machines and are in no audit record: pages that list them hear of them here."""
    touch("gpu-health")
    touch(ChangesTopic.kind, "gpu-health")
