"""What of healing waits for a person."""

from collections.abc import Iterator

from django.utils.translation import gettext as _

from common.actor import Actor
from common.pages.inbox import InboxEntry
from gpu_health import selectors
from gpu_health.models import Incident
from gpu_health.states import IncidentState


def approvals(actor: Actor) -> Iterator[InboxEntry]:
    """Actions on machines that this actor may approve."""
    for incident in selectors.waiting_for_approval(actor):
        yield _entry(incident, ("gpu_hold", "approval"), _("%(action)s of %(node)s"), is_decision=True)


def for_people(actor: Actor) -> Iterator[InboxEntry]:
    """Machines that healing has given up, out of service until somebody has looked."""
    for incident in selectors.needing_person(actor):
        yield _entry(incident, ("gpu_incident", IncidentState.NEEDS_PERSON), _("%(node)s needs a person"))


def _entry(
    incident: Incident, badge: tuple[str, str], title: str, *, is_decision: bool = False
) -> InboxEntry:
    return InboxEntry(
        badge=badge,
        title=title % {"action": incident.action, "node": incident.node.name},
        url=f"/gpu-health/incidents/{incident.pk}/",
        since=incident.asked_at if is_decision else incident.state_since,
        why=incident.hold_reason or incident.reason,
        notes=(incident.title, incident.node.cluster.name),
        is_decision=is_decision,
    )
