"""What lets healing do more by itself takes effect when two people have asked for the same, where the policy
says so. Which actions take an approval has a word of its own: `approval_changes`.
"""

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from common import clock
from common.actor import Actor
from gpu_health.healing.limits import HealingLimits
from gpu_health.models import HealingPolicy
from gpu_health.states import HealingMode

MORE_IS_LOOSER = frozenset(
    {
        *("slots_percent", "unhealthy_percent", "unhealthy_above", "repairs_per_hour", "repairs_percent"),
        *("breaker_percent", "domain_percent", "lemon_remediations"),
    }
)
LESS_IS_LOOSER = frozenset({"seconds_between_drains", "cooldown_seconds", "breaker_seconds", "lemon_seconds"})
WAITS = frozenset({"wait_seconds", "fault_wait_seconds"})
COUNTS_FOR = timedelta(days=7)
"""So long somebody's word waits for a second one."""
WHOLE = ("windows", "drain")
"""Nobody can tell which of two is the looser one: each change of them counts."""


def loosened(held: HealingPolicy, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes that let healing do more: new values by name, those of limits as `limits.NAME`."""
    found: dict[str, Any] = {}
    if given.get("mode", held.mode) != held.mode and given["mode"] == HealingMode.ACT:
        found["mode"] = given["mode"]
    if set(held.dry_clusters) - set(given.get("dry_clusters", held.dry_clusters)):
        found["dry_clusters"] = given["dry_clusters"]
    found |= {name: given[name] for name in WHOLE if name in given and given[name] != getattr(held, name)}
    if "limits" in given:
        before, after = held.figures.to_dict(), HealingLimits.of(given["limits"]).to_dict()
        found |= {f"limits.{name}": after[name] for name in after if _is_looser(name, before, after)}
    return found


def _is_looser(name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    was, now = before[name], after[name]
    if name in WAITS:
        return any(now.get(key, -1.0) < seconds for key, seconds in was.items()) or any(
            seconds < after["wait_seconds"]["info"] for key, seconds in now.items() if key not in was
        )
    return (name in MORE_IS_LOOSER and now > was) or (name in LESS_IS_LOOSER and now < was)


def agreed(held: HealingPolicy, asked: Mapping[str, Any], actor: Actor) -> tuple[set[str], dict[str, Any]]:
    """Names of what takes effect now, since another person has asked for the same or one is enough; and
    `held_changes` of the policy afterwards."""
    if not held.needs_two_people:
        return set(asked), {}
    now, changes = set(), dict(held.asked_changes)
    for name, value in asked.items():
        plain, before = json.loads(json.dumps(value)), changes.get(name)
        if before and before["to"] == plain and before["user"] != actor.user_id:
            now.add(name)
            del changes[name]
        elif not before or before["to"] != plain:
            until = (clock.now() + COUNTS_FOR).timestamp()
            changes[name] = {"by": actor.name, "user": actor.user_id, "to": plain, "until": until}
    return now, changes


def held_back(held: HealingPolicy, given: Mapping[str, Any], actor: Actor) -> dict[str, Any]:
    """Columns of the policy after this change: what waits for a second person stays as it was."""
    asked = loosened(held, given)
    now, changes = agreed(held, asked, actor)
    # Whoever saves the value that is in force withdraws what was asked in its place.
    changes = {name: one for name, one in changes.items() if name in asked or name not in given}
    columns = {name: value for name, value in given.items() if name in now or name not in asked}
    if "limits" in given:
        columns["limits"] = dict(given["limits"])
        for name in HealingLimits().to_dict():
            if f"limits.{name}" in asked.keys() - now:
                columns["limits"].pop(name, None)
                columns["limits"] |= {name: held.limits[name]} if name in held.limits else {}
    return columns | {"held_changes": changes}
