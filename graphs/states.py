from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _

from common.transitions import StateMachine


class GraphState(TextChoices):
    """Whether plans may change."""

    RUNNING = "running", _("Running")
    PAUSED = "paused", _("Paused")


class GraphPlanState(TextChoices):
    PLANNING = "planning", _("Planning")
    PROPOSED = "proposed", _("Proposed")
    IMPOSSIBLE = "impossible", _("Impossible")
    FAILED = "failed", _("Failed")
    ACTIVE = "active", _("Active")
    REPLACED = "replaced", _("Replaced")


OBJECTIVES = (
    ("throughput", _("Highest throughput")),
    ("cost", _("Lowest cost at a rate")),
    ("latency", _("Lowest latency at a rate")),
)

_S = GraphPlanState

PLAN_MOVES: StateMachine[GraphPlanState] = StateMachine(
    {
        _S.PLANNING: {_S.PROPOSED, _S.IMPOSSIBLE, _S.FAILED},
        _S.PROPOSED: {_S.ACTIVE},
        _S.ACTIVE: {_S.REPLACED},
        _S.REPLACED: {_S.ACTIVE},
        _S.IMPOSSIBLE: set(),
        _S.FAILED: set(),
    }
)
