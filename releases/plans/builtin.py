"""The plans that every Slipway starts with."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from django.utils.translation import gettext_noop as _

from releases.plans.plan import PlanSpec, parse_plan

DEFAULT_PLAN = "canary"
DIRECT = "direct"
ROLLBACK = "rollback"
WARM_ROLLBACK = "rollback-warm"
RETURN = "return"

_DIRECT_STEPS = (
    {"kind": "scan"},
    {"kind": "deploy", "share_percent": 100},
    {"kind": "smoke_test", "requests": 10, "timeout_seconds": 120},
    {"kind": "promote"},
)
_TO_CHOOSE: Mapping[str, Mapping[str, Any]] = {
    DEFAULT_PLAN: {
        "description": _(
            "For production. A twentieth of the traffic for five minutes, a quarter until the "
            "judge is sure (or an hour has passed), then a person other than the requester "
            "decides. For ten minutes after that a rollback takes seconds."
        ),
        "bake_seconds": 600,
        "steps": (
            {"kind": "scan"},
            {"kind": "deploy", "share_percent": 100},
            {"kind": "smoke_test", "requests": 20, "timeout_seconds": 300},
            {"kind": "weight", "percent": 5},
            {"kind": "hold", "seconds": 300},
            {"kind": "weight", "percent": 25},
            {"kind": "hold", "seconds": 600},
            {"kind": "judge", "at_most_seconds": 3600, "on_insufficient": "ask"},
            {"kind": "approval"},
            {"kind": "promote"},
        ),
    },
    "canary-quick": {
        "description": _(
            "For trying things out and for services with little at stake. Less than a minute of "
            "canary before a judge who tolerates more, as that shows only what is gross; then a "
            "person decides, perhaps the requester."
        ),
        "bake_seconds": 120,
        "steps": (
            {"kind": "scan", "timeout_seconds": 120},
            {"kind": "deploy", "share_percent": 100, "ready_within_seconds": 180},
            {"kind": "smoke_test", "requests": 3, "timeout_seconds": 60},
            {"kind": "weight", "percent": 10},
            {"kind": "hold", "seconds": 15, "min_requests": 0},
            {"kind": "weight", "percent": 30},
            {"kind": "hold", "seconds": 15, "min_requests": 0},
            {"kind": "judge", "at_most_seconds": 15, "on_insufficient": "ask"},
            {"kind": "approval", "separate_requester": False},
            {"kind": "promote"},
        ),
        "judge": {
            "errors": {
                "roll_back_above_ratio": 1.0,
                "roll_back_min_percent": 1.0,
                "promote_below_ratio": 3.0,
                "promote_below_percent": 3.0,
            },
            "slow": {"roll_back_above_ratio": 3.0, "promote_below_ratio": 5.0},
            "min_requests": 50,
        },
    },
    "blue-green": {
        "description": _(
            "Both versions run in full. Clients with the release header try the new one, a person decides, "
            "all traffic switches at once, and for twenty minutes it goes back as fast."
        ),
        "bake_seconds": 600,
        "steps": (
            {"kind": "scan"},
            {"kind": "deploy", "share_percent": 100},
            {"kind": "smoke_test", "requests": 20, "timeout_seconds": 300},
            {"kind": "preview"},
            {"kind": "approval"},
            {"kind": "weight", "percent": 100},
            {"kind": "hold", "seconds": 600},
            {"kind": "promote"},
        ),
    },
    DIRECT: {
        "description": _(
            "No canary: all traffic at once after a smoke test. For the first version of a "
            "service, which has nothing to be compared with, and for emergencies."
        ),
        "bake_seconds": 300,
        "steps": _DIRECT_STEPS,
    },
}
_OF_ROLLBACKS: Mapping[str, Mapping[str, Any]] = {
    ROLLBACK: {
        "description": _("Back to the version before, whose workers have stopped: new ones start first."),
        "steps": _DIRECT_STEPS,
    },
    RETURN: {
        "description": _(
            "Back to a version that served before: its files are brought first, then it starts."
        ),
        "steps": (_DIRECT_STEPS[0], {"kind": "prefetch"}, *_DIRECT_STEPS[1:]),
    },
    WARM_ROLLBACK: {
        "description": _("Back to the version before, whose workers are still up: only the weight moves."),
        "steps": ({"kind": "deploy", "share_percent": 100}, {"kind": "promote"}),
    },
}


@cache
def builtin_plan(name: str) -> PlanSpec:
    """Return a plan to choose, or one of those of rollbacks."""
    return parse_plan({"name": name, **{**_TO_CHOOSE, **_OF_ROLLBACKS}[name]})


def builtin_plans() -> dict[str, PlanSpec]:
    """Return the plans to choose, by name."""
    return {name: builtin_plan(name) for name in _TO_CHOOSE}
