from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _

from common.transitions import StateMachine


class GraphState(TextChoices):
    """Whether plans may change."""

    RUNNING = "running", _("Running")
    PAUSED = "paused", _("Paused")


class AdaptMode(TextChoices):
    """Reaction to workers that are slower or faster than their plan says."""

    OFF = "off", _("Off")
    ADVISE = "advise", _("Advise")
    APPROVE = "approve", _("Approve")
    AUTOMATIC = "automatic", _("Automatic")


class PlanKind(TextChoices):
    ORDERED = "ordered", _("Ordered")
    ADAPTED = "adapted", _("Adapted")


class GraphItemState(TextChoices):
    """States that workers tell of items; no row has them."""

    WAITING = "waiting", _("Waiting")
    RUNNING = "running", _("Running")
    DONE = "done", _("Done")
    FAILED = "failed", _("Failed")
    CANCELLED = "cancelled", _("Cancelled")


class GraphPlanState(TextChoices):
    PLANNING = "planning", _("Planning")
    PROPOSED = "proposed", _("Proposed")
    IMPOSSIBLE = "impossible", _("Impossible")
    FAILED = "failed", _("Failed")
    ACTIVE = "active", _("Active")
    REPLACED = "replaced", _("Replaced")
    DISMISSED = "dismissed", _("Dismissed")


OBJECTIVES = (
    ("throughput", _("Highest throughput")),
    ("cost", _("Lowest cost at a rate")),
    ("latency", _("Lowest latency at a rate")),
)

_S = GraphPlanState

PLAN_MOVES: StateMachine[GraphPlanState] = StateMachine(
    {
        _S.PLANNING: {_S.PROPOSED, _S.IMPOSSIBLE, _S.FAILED, _S.DISMISSED},
        _S.PROPOSED: {_S.ACTIVE, _S.DISMISSED},
        _S.DISMISSED: set(),
        _S.ACTIVE: {_S.REPLACED},
        _S.REPLACED: {_S.ACTIVE},
        _S.IMPOSSIBLE: set(),
        _S.FAILED: set(),
    }
)
