"""Whether healing acts, as the pages of GPU health show it."""

from collections.abc import Mapping
from typing import Any

from accounts.selectors import may, may_everywhere
from accounts.states import Right
from common.actor import Actor
from gpu_health import selectors
from gpu_health.forms import StopHealingForm
from gpu_health.incident_facts import policy
from gpu_health.services.draining import drains_under_way


def healing_panel(actor: Actor) -> Mapping[str, Any]:
    """Return the values that `gpu_health/_healing.html` shows."""
    return {
        "policy": policy(),
        "drains": drains_under_way().count(),
        "stop_form": StopHealingForm(),
        "pools": selectors.pools_at_work(),
        "may_stop": may(actor, Right.FLEET_OPERATE),
        "may_switch": may_everywhere(actor, Right.FLEET_OPERATE),
        "counts": {state: count for state, count in selectors.incidents_by_state().items() if count},
    }
