"""Whether healing acts at all: its mode and limits, the kill switch, the breakers of pools."""

from collections.abc import Mapping
from typing import Any

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from accounts.services.rights import require_beyond_a_team, require_everywhere
from accounts.states import Right
from clusters.draining.checkpoint_webhook import webhook_faults
from clusters.draining.options import DrainOptions
from common import audit, clock, events
from common.actor import Actor
from common.errors import Stale
from common.reconcile import kernel
from gpu_health.errors import BreakerClosed, InvalidPolicy
from gpu_health.events import HealingResumed, HealingStopped
from gpu_health.healing.guards import windows_of
from gpu_health.healing.limits import BadLimits, HealingLimits
from gpu_health.models import HealingPolicy, HealingPool, Incident
from gpu_health.services.approval_changes import approval_changes
from gpu_health.services.draining import stop_all_drains
from gpu_health.services.incidents import note
from gpu_health.services.second_person import held_back
from gpu_health.states import ENDED_INCIDENTS, HealingMode, IncidentState

CHANGEABLE = ("mode", "dry_clusters", "windows", "drain", "limits", "two_people")


def change_policy(
    *, actor: Actor, given: Mapping[str, Any], reason: str, expected: int | None = None,
    are_approvals_asked: bool = True,
) -> HealingPolicy:  # fmt: skip
    """Change the policy; columns that are not given stay. Where it asks for two people, what lets healing do
    more takes effect once a second one has asked for the same. `are_approvals_asked` False: the limits given
    are about other things than approvals. Raises NotAllowed, InvalidPolicy, Stale."""
    require_everywhere(actor, Right.FLEET_OPERATE)
    values = {name: given[name] for name in CHANGEABLE if name in given}
    _check(values)
    with transaction.atomic():
        row = stored_policy()
        others = {} if are_approvals_asked else {"limits"}
        changes = approval_changes(
            row, {name: value for name, value in values.items() if name not in others}, actor
        )
        columns = held_back(row, values, actor)
        row.change(expected=expected or None, **columns, approval_changes=changes)
        audit.record(actor, "gpu_healing.change", subject=row, reason=reason, detail=dict(values))
        _wake_all()
    return row


def stop_healing(*, actor: Actor, reason: str, stops_drains: bool = False) -> HealingPolicy:
    """Throw the kill switch: from now on nothing more is begun, anywhere.

    Operators of any team may, a token that is limited to one team may not: its owner has said that it is to
    reach no further. What is under way on a machine goes on; drains that healing ordered do not, with
    `stops_drains`: no further pod is asked to leave. Raises NotAllowed, OutOfScope.
    """
    require_beyond_a_team(actor, Right.FLEET_OPERATE)
    with transaction.atomic():
        row = stored_policy()
        if not row.is_stopped:
            row.change(kill_switch_at=clock.now(), kill_switch_by=actor.name, kill_switch_reason=reason)
            audit.record(actor, "gpu_healing.stop", subject=row, reason=reason)
            events.publish(HealingStopped(actor.name))
            _wake_all()
        if stops_drains:
            count = stop_all_drains(f"Kill switch: {actor.name}: {reason}")
            audit.record(
                actor, "gpu_healing.stop_drains", subject=row, reason=reason, detail={"drains": count}
            )
    return row


def resume_healing(*, actor: Actor, reason: str) -> HealingPolicy:
    """The kill switch is off again: incidents go on from where they were. Raises NotAllowed."""
    require_everywhere(actor, Right.FLEET_OPERATE)
    with transaction.atomic():
        row = stored_policy()
        if row.is_stopped:
            row.change(kill_switch_at=None, kill_switch_by="", kill_switch_reason="")
            audit.record(actor, "gpu_healing.resume", subject=row, reason=reason)
            events.publish(HealingResumed(actor.name))
            _wake_all()
    return row


def close_breaker(*, actor: Actor, pool: HealingPool, replays: bool, reason: str) -> HealingPool:
    """A person has looked. `replays`: the incidents that waited go on; else those of which nothing was done
    are cancelled, and only new faults open others. Raises NotAllowed, BreakerClosed.
    """
    require_everywhere(actor, Right.FLEET_OPERATE)
    now = clock.now()
    with transaction.atomic():
        closed = HealingPool.objects.filter(pk=pool.pk, breaker_opened_at__isnull=False).update(
            breaker_opened_at=None, breaker_reason="", breaker_reset_at=now
        )
        if not closed:
            raise BreakerClosed(_("The breaker of %(pool)s is not open.") % {"pool": pool.name})
        waiting = Incident.objects.filter(pool=pool.name).exclude(state__in=ENDED_INCIDENTS)
        for incident in waiting:
            if replays or incident.state != IncidentState.PROPOSED:
                kernel.wake(incident)
            elif kernel.wake(incident, where={"ended_at": None}, cancel="leave", cancelled_by=actor.name):
                note(
                    incident,
                    now,
                    incident.state,
                    actor.name,
                    f"Discarded with the breaker's backlog: {reason}",
                )
        detail = {"backlog": "replay" if replays else "discard"}
        audit.record(actor, "gpu_healing.breaker_closed", subject=pool, reason=reason, detail=detail)
    pool.refresh_from_db()
    return pool


def _check(values: Mapping[str, Any]) -> None:
    if values.get("mode", HealingMode.ACT) not in HealingMode.values:
        raise InvalidPolicy(fields={"mode": [_("Choose one of: dry_run, act.")]})
    names = values.get("dry_clusters", [])
    if not isinstance(names, list) or not all(isinstance(one, str) for one in names):
        raise InvalidPolicy(fields={"dry_clusters": [_("Give a list of names of clusters.")]})
    try:
        windows_of(values.get("windows", []))
    except ValueError as error:
        raise InvalidPolicy(fields={"windows": [str(error)]}) from None
    try:
        wanted = DrainOptions.read(values.get("drain", {}))
        faults = {**wanted.faults(), **webhook_faults(wanted)}
    except (ValueError, TypeError, KeyError, AttributeError):
        faults = {"": _("Give options of a drain, as the preview of a drain takes them.")}
    if faults:
        raise InvalidPolicy(fields={f"drain.{name}".strip("."): [words] for name, words in faults.items()})
    limits = values.get("limits", {})
    try:
        HealingLimits.of(limits if isinstance(limits, dict) else {"": limits})
    except BadLimits as error:
        raise InvalidPolicy(fields={"limits": [str(error)]}) from None


def stored_policy() -> HealingPolicy:
    """Return the policy for a change; create it if there is none. Raises Stale."""
    row = HealingPolicy.objects.filter(pk=HealingPolicy.ONLY).first()
    if row is not None:
        return row
    try:
        with transaction.atomic():
            return HealingPolicy.objects.create(pk=HealingPolicy.ONLY)
    except IntegrityError:
        raise Stale(_("Someone else changed the healing policy at the same time. Read it again.")) from None


def _wake_all() -> None:
    for incident in Incident.objects.exclude(state__in=ENDED_INCIDENTS):
        kernel.wake(incident)
