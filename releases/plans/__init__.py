"""Release plans as frozen data: parsed, checked, hashed, compared, told in words. Pure: no clock, no I/O."""

from releases.plans.builtin import (
    BUILTIN_PLANS,
    CANARY,
    CANARY_QUICK,
    DEFAULT_PLAN,
    DIRECT,
    ROLLBACK,
    WARM_ROLLBACK,
)
from releases.plans.plan import Plan, canonical_json, parse_plan, plan_hash, plan_schema
from releases.plans.steps import (
    Approval,
    Deploy,
    Hold,
    Judge,
    Promote,
    Scan,
    SmokeTest,
    Step,
    StepKind,
    Weight,
)
from releases.plans.words import StripCell, diff, duration, strip, summary

__all__ = [
    "BUILTIN_PLANS",
    "CANARY",
    "CANARY_QUICK",
    "DEFAULT_PLAN",
    "DIRECT",
    "ROLLBACK",
    "WARM_ROLLBACK",
    "Approval",
    "Deploy",
    "Hold",
    "Judge",
    "Plan",
    "Promote",
    "Scan",
    "SmokeTest",
    "Step",
    "StepKind",
    "StripCell",
    "Weight",
    "canonical_json",
    "diff",
    "duration",
    "parse_plan",
    "plan_hash",
    "plan_schema",
    "strip",
    "summary",
]
