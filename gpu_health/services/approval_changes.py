"""Which actions take an approval is changed by two people, where the policy says so."""

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _

from common.actor import Actor
from gpu_health.errors import NeedsSecondPerson
from gpu_health.healing.limits import HealingLimits
from gpu_health.models import HealingPolicy
from gpu_health.models.healing import TWO_PEOPLE


def approval_changes(held: HealingPolicy, given: Mapping[str, Any], actor: Actor) -> dict[str, Any]:
    """`approval_changes` of the policy after this change. What lets healing do more without a person waits
    until somebody else asks for the same; what asks for more approvals counts at once."""
    changes = dict(held.approval_changes)
    if not held.needs_two_people:
        return {}
    now: set[str] = set()
    wanted: set[str] = set()
    if "limits" in given:
        now |= set(held.figures.approved_actions)
        wanted |= set(HealingLimits.of(given["limits"]).approved_actions)
    if TWO_PEOPLE in given:
        now.add(TWO_PEOPLE)
        wanted |= {TWO_PEOPLE} if given[TWO_PEOPLE] else set()
    for name in now - wanted:
        before = changes.get(name, {})
        if not before.get("waits"):
            changes[name] = {"by": actor.name, "user": actor.user_id, "waits": True}
        elif before["user"] != actor.user_id:
            del changes[name]
            if name == TWO_PEOPLE:
                return {}
    for name in now & wanted & set(held.waiting_approvals):
        del changes[name]
    for name in wanted - now:
        changes[name] = {"by": actor.name, "user": actor.user_id, "waits": False}
    return changes


def refuse_own_change(held: HealingPolicy, action: str, actor: Actor) -> None:
    """Whoever changed whether an action takes an approval does not give it. Raises NeedsSecondPerson."""
    change = held.approval_changes.get(action)
    if held.needs_two_people and change is not None and change["user"] == actor.user_id:
        raise NeedsSecondPerson(
            _("You changed whether %(action)s takes an approval, so somebody else must approve it.")
            % {"action": action}
        )
