"""Incidents are opened by findings, and approved, held and cancelled by people."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from accounts.services.rights import require_for_owner
from accounts.states import Right
from clusters.models import Node
from clusters.services.nodes import cordon_node
from common import audit, clock, events
from common.actor import Actor
from common.numbers import next_number
from common.reconcile import kernel
from gpu_health.errors import IncidentAlreadyEnded, NotHeld, NothingToApprove
from gpu_health.events import IncidentOpened
from gpu_health.healing.course import is_stale, rank
from gpu_health.incident_facts import (
    domain_incidents,
    domain_machines,
    gpu_columns,
    lead_columns,
    open_findings,
    policy,
    settled_until,
)
from gpu_health.models import Finding, Incident, IncidentEntry
from gpu_health.pools import pool_of
from gpu_health.services.approval_changes import refuse_own_change
from gpu_health.states import ENDED_INCIDENTS, IncidentState


def consider(node: Node, *, boot: str = "") -> None:
    """Findings of the machine have changed: its incident looks at them, or one is opened. `boot`: its present
    start, where it was told otherwise than by its cluster.

    Inside the transaction that wrote the findings, so that none is lost.
    """
    present = Incident.objects.filter(node=node).exclude(state__in=ENDED_INCIDENTS).first()
    if present is not None:
        kernel.wake(present)
        return
    since = settled_until(node.pk)
    boots = {boot, node.boot_id}
    found = [
        one
        for one in open_findings(node.pk)
        if not any(is_stale(one, boot_id=boot_id, since=since) for boot_id in boots)
    ]
    if not found:
        return
    rows = {row.pk: row for row in Finding.objects.filter(pk__in=[one.pk for one in found])}
    # What is real goes before what a drill plays.
    lead = max(
        found, key=lambda one: (not rows[one.pk].drill_id, rank(one.ladder[0]), one.severity.rank, -one.pk)
    )
    row = rows[lead.pk]
    try:
        with transaction.atomic():
            opened = Incident.objects.create(
                pk=next_number(Incident),
                node=node,
                pool=pool_of(node),
                session=node.boot_id,
                first_at=lead.first_at,
                next_at=clock.now(),
                **gpu_columns(node),
                drill_id=row.drill_id,
                **lead_columns(lead, row.gpu_uuid, row.rule),
            )
    except IntegrityError:
        return  # somebody was first: its next step reads the findings
    note(opened, opened.opened_at, IncidentState.PROPOSED, "gpu-health", f"Seen: {row.raw or row.title}")
    events.publish(IncidentOpened(opened.pk))
    kernel.wake(opened)


def note(incident: Incident, at: datetime, state: str, actor: str, words: str) -> None:
    """A line of the timeline."""
    IncidentEntry.objects.create(incident=incident, at=at, state=state, actor=actor, words=words[:4000])


def approve(*, actor: Actor, incident: Incident, reason: str) -> Incident:
    """Let it take the step that it asks approval for: the present action, or the return to service.

    Raises NotAllowed, NeedsSecondPerson, IncidentAlreadyEnded, NothingToApprove.
    """
    _require(actor, incident)
    if actor.user_id is None:
        raise NothingToApprove(_("Only a person can approve."))
    wishes: dict[str, Any]
    if not incident.waits_for_approval:
        raise NothingToApprove(_("This incident does not wait for an approval."))
    if incident.state == IncidentState.VERIFYING:
        words = f"Approved the return to service: {reason}"
        # What was seen until now is this person's word: it brings the machine out of service no more.
        wishes = {"returns_approved": True, "acted_at": clock.now()}
    else:
        refuse_own_change(policy(), incident.action, actor)
        words = f"Approved {incident.action}: {reason}"
        wishes = {}
    wishes |= {"approved_climb": incident.climb, "approved_by": actor.name}
    return _wish(
        actor, incident, "gpu_incident.approve", reason, words, wishes, where={"climb": incident.climb}
    )


def approve_domain(*, actor: Actor, incident: Incident, reason: str) -> list[Incident]:
    """Approve every machine of the rack or NVLink domain that waits for the domain's sake.

    Raises NotAllowed, IncidentAlreadyEnded, NothingToApprove.
    """
    _require(actor, incident)
    waiting = domain_incidents(incident)
    if not waiting:
        raise NothingToApprove(_("No machine of this domain waits for an approval."))
    with transaction.atomic():
        return [approve(actor=actor, incident=one, reason=reason) for one in waiting]


def cordon_domain(*, actor: Actor, incident: Incident, reason: str) -> list[Node]:
    """No new pod is placed on the machines of its domain that are still in service; those that run go on.

    A person uncordons them again. Raises NotAllowed, IncidentAlreadyEnded, NothingToApprove.
    """
    _require(actor, incident)
    rest = [one for one in domain_machines(incident.node) if not one.is_cordoned and not one.operation]
    if not rest:
        raise NothingToApprove(_("Every machine of this domain is cordoned already."))
    with transaction.atomic():
        for node in rest:
            cordon_node(actor=actor, node=node, reason=reason)
        words = f"Cordoned: {', '.join(node.name for node in rest)}. {reason}"
        _tell(actor, incident, "gpu_incident.cordon_domain", reason, words, incident.state)
    return rest


def hold(*, actor: Actor, incident: Incident, reason: str) -> Incident:
    """Nothing more is done until somebody resumes it; what is under way goes on. Raises NotAllowed,
    IncidentAlreadyEnded."""
    _require(actor, incident)
    wishes = {"held_by": actor.name, "held_reason": reason}
    return _wish(actor, incident, "gpu_incident.hold", reason, f"Held: {reason}", wishes)


def resume(*, actor: Actor, incident: Incident, reason: str) -> Incident:
    """Raises NotAllowed, IncidentAlreadyEnded, NotHeld."""
    _require(actor, incident)
    if not incident.held_by:
        raise NotHeld(_("This incident is not on hold."))
    wishes = {"held_by": "", "held_reason": ""}
    return _wish(actor, incident, "gpu_incident.resume", reason, f"Resumed: {reason}", wishes)


def cancel(*, actor: Actor, incident: Incident, returns: bool, reason: str) -> Incident:
    """Do no more about it. `returns`: the machine goes back to service unverified; else it stays as it is.
    An action that is under way is waited for. Raises NotAllowed, IncidentAlreadyEnded.
    """
    _require(actor, incident)
    wishes = {
        "cancel": "return" if returns else "leave",
        "cancelled_by": actor.name,
        "held_by": "",
        "held_reason": "",
    }
    return _wish(actor, incident, "gpu_incident.cancel", reason, f"Cancelled: {reason}", wishes)


def end_with_drill(incident: Incident) -> None:
    """The drill is over that has played its fault: the machine returns. Raises IncidentAlreadyEnded."""
    with transaction.atomic():
        wishes = {"cancel": "over", "held_by": "", "held_reason": ""}
        if not kernel.wake(incident, where={"ended_at": None}, **wishes):
            raise IncidentAlreadyEnded(_("This incident is not open any more."))
        words = f"Drill {incident.drill_id} is over."
        note(incident, clock.now(), incident.state, "gpu-health", words)


def verify_again(*, actor: Actor, incident: Incident, reason: str) -> Incident:
    """A person has dealt with what needed one: the machine is verified, and returns if that passes.

    Raises NotAllowed, IncidentAlreadyEnded, NotHeld unless it waits for a person.
    """
    _require(actor, incident)
    if incident.state != IncidentState.NEEDS_PERSON:
        raise NotHeld(_("This incident does not wait for a person."))
    now = clock.now()
    with transaction.atomic():
        moved = kernel.interrupt(
            incident,
            to=IncidentState.VERIFYING,
            climb=incident.climb + 1,
            state_since=now,
            acted_at=now,
            session=incident.node.boot_id,
            check_failed=False,
            hold="",
            hold_reason="",
            check_result=None,
        )
        if not moved:
            raise IncidentAlreadyEnded(_("The incident has moved on meanwhile. Look at it again."))
        _tell(
            actor, incident, "gpu_incident.verify", reason, f"Dealt with: {reason}", IncidentState.VERIFYING
        )
    incident.refresh_from_db()
    return incident


def _require(actor: Actor, incident: Incident) -> None:
    require_for_owner(actor, Right.FLEET_OPERATE, incident.node.cluster.team)
    if not incident.is_open:
        raise IncidentAlreadyEnded(_("This incident is not open any more."))


def _wish(
    actor: Actor,
    incident: Incident,
    deed: str,
    reason: str,
    words: str,
    wishes: Mapping[str, Any],
    where: Mapping[str, Any] | None = None,
) -> Incident:
    with transaction.atomic():
        if not kernel.wake(incident, where={"ended_at": None, **(where or {})}, **wishes):
            raise IncidentAlreadyEnded(_("The incident has moved on meanwhile. Look at it again."))
        _tell(actor, incident, deed, reason, words, incident.state)
    incident.refresh_from_db()
    return incident


def _tell(actor: Actor, incident: Incident, deed: str, reason: str, words: str, state: str) -> None:
    note(incident, clock.now(), state, actor.name, words)
    audit.record(
        actor,
        deed,
        subject=incident,
        reason=reason,
        detail={"node": incident.node.name, "fault": incident.fault},
        team_id=incident.node.cluster.team_id,
    )
