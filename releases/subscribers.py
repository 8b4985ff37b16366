"""Releases follow machines and workers; their pages look again when something has moved."""

from capacity.events import WorkersMoved
from clusters.errors import DeploymentMissing
from clusters.events import NodeDraining, WorkersChanged
from clusters.models import Drain
from clusters.selectors import deployment_name
from common.errors import Missing
from common.live.touch import touch
from common.reconcile import kernel
from freezes.events import FreezeChanged
from gpu_health.events import NodeQuarantined, NodeReturned
from gpu_health.models import Incident
from releases.events import PolicyLowered, ReleaseEnded, ReleaseMoved, ServiceChanged
from releases.machines import MachineProblem
from releases.models import Release
from releases.selectors.releases import served_by
from releases.services import machines
from releases.services.environments import promote_automatically, promote_what_waited
from releases.services.service import keep_replicas
from releases.states import IN_MOTION, ReleaseState
from releases.steps.benchmark import cancel_of_release


def show_release(event: ReleaseMoved) -> None:
    touch("release", event.release_id)
    show_service(ServiceChanged(event.service_id))


def show_service(event: ServiceChanged) -> None:
    touch("service", event.service_id)
    touch("releases")


def show_workers(event: WorkersChanged) -> None:
    """The pages of the service that they work for look again."""
    try:
        service_id, release_id = served_by(deployment_name(event.deployment_id))
    except (DeploymentMissing, Missing):
        return
    touch("service", service_id)
    if release_id is not None:
        touch("release", release_id)


def look_at_freezes(_event: FreezeChanged) -> None:
    """Have releases in motion stop or continue now, whatever they wait for."""
    for release in Release.objects.filter(state__in=IN_MOTION):
        kernel.wake(release)
    touch("releases")


def promote_in_environments(event: ReleaseEnded) -> None:
    """Release what was promoted in the stages after it that are automatic."""
    if event.state == ReleaseState.PROMOTED:
        promote_automatically(Release.objects.select_related("version").get(pk=event.release_id))
    promote_what_waited(event.service_id)


def promote_what_may_start(event: ServiceChanged) -> None:
    """Try what a stage refused once more: a person may have let its releases start by themselves again."""
    promote_what_waited(event.service_id)


def promote_what_is_allowed_now(_event: PolicyLowered) -> None:
    """Try what stages refused once more: the policy that stood in the way may be the one that changed."""
    promote_what_waited()


def stop_benchmarks(event: ReleaseEnded) -> None:
    """Stop what a release measured that was given up meanwhile."""
    cancel_of_release(Release.objects.get(pk=event.release_id))


def hold_quarantined(event: NodeQuarantined) -> None:
    """Hold releases in the same transaction: nobody's workers are judged by what a faulty machine does."""
    for incident in Incident.objects.select_related("node__cluster").filter(pk=event.incident_id):
        machines.hold_releases(
            MachineProblem(incident.node, incident.title, f"/gpu-health/incidents/{incident.pk}/")
        )


def hold_drained(event: NodeDraining) -> None:
    """Hold releases in the same transaction: whoever orders a drain, its candidates are not to blame."""
    for drain in Drain.objects.select_related("node__cluster").filter(pk=event.drain_id):
        machines.hold_releases(MachineProblem(drain.node, drain.reason, f"/fleet/drains/{drain.pk}/"))


def keep_workers(event: WorkersMoved) -> None:
    """Have the service's next release start as many workers as capacity gave it; in the same transaction."""
    keep_replicas(event.service, max(1, event.workers))


def continue_releases(event: NodeReturned) -> None:
    machines.look_again(event.node_id)
