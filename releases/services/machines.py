"""Releases are told of machines that leave service and come back."""

from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from clusters.draining import leaving
from common import audit, events
from common.actor import Actor
from common.reconcile import kernel
from releases.events import ReleaseMoved, ServiceChanged
from releases.machines import MachineProblem
from releases.messages import MessageTemplate, text
from releases.models import Release, ReleaseMove, Service
from releases.states import IN_MOTION

ACTOR = Actor.system("slipway")
HELD = MessageTemplate(
    "machine.held",
    _("Held: %(machine)s leaves service (%(why)s). Requests meanwhile count against neither version."),
    machine=text,
    why=text,
)
GOES_ON = MessageTemplate(
    "machine.goes_on", _("Continues: the workers moved from %(machine)s are ready."), machine=text
)
GAVE_UP_WAITING = MessageTemplate(
    "machine.gave_up_waiting",
    _("The workers that stood on %(machine)s were not ready in time: they are judged as usual."),
    machine=text,
)


def hold_releases(trouble: MachineProblem) -> None:
    """Hold active releases with workers on the machine. Inside the transaction in which it leaves."""
    names = leaving.deployments_on(trouble.node.pk)
    rows = Release.objects.filter(state__in=IN_MOTION, halt="").filter(
        Q(candidate_deployment__in=names) | Q(stable_deployment__in=names)
    )
    for release in rows:
        hold_release(release, trouble)
    services = Service.objects.filter(stable_deployment__in=names).exclude(stable_deployment="")
    for service_id in services.values_list("pk", flat=True):
        events.publish(ServiceChanged(service_id))


def hold_release(release: Release, trouble: MachineProblem) -> None:
    """Told once for a machine; a drain that follows the quarantine makes it wait from then on."""
    now = kernel.clock()
    is_known = release.disturbed_at is not None and release.disturbance.get("node") == trouble.node.pk
    kept = release.disturbance if is_known else trouble.document(now)
    if not kernel.wake(release, where={"halt": ""}, disturbed_at=now, disturbance=kept) or is_known:
        return
    told = HELD(machine=trouble.node.name, why=trouble.why)
    note_move(release, told.text, told.document)
    audit.record(ACTOR, "release.hold", subject=release, team_id=release.team_id, reason=told.text)
    events.publish(ReleaseMoved(release.pk, release.service_id))


def look_again(node_id: int) -> None:
    """The machine is back in service: for latency, its releases look at once."""
    for release in Release.objects.filter(disturbed_at__isnull=False, state__in=IN_MOTION):
        if release.disturbance.get("node") == node_id:
            kernel.wake(release)
    names = leaving.deployments_on(node_id)
    for service_id in Service.objects.filter(stable_deployment__in=names).values_list("pk", flat=True):
        events.publish(ServiceChanged(service_id))


def note_move(release: Release, words: str, message: object) -> None:
    ReleaseMove.objects.create(
        release=release,
        before=release.state,
        after=release.state,
        actor=ACTOR.name,
        note=words,
        message=message,
    )
