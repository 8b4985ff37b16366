"""The plans that every Slipway starts with."""

from django.utils.translation import gettext_noop as _

from releases.judge.rules import IndicatorRules, JudgeRules
from releases.plans.plan import Plan
from releases.plans.steps import Approval, Deploy, Hold, Judge, Promote, Scan, SmokeTest, Weight

CANARY = Plan(
    name="canary",
    description=(
        _(
            "For production. A twentieth of the traffic for five minutes, a quarter until the "
            "judge is sure (or an hour has passed), then a person other than the requester "
            "decides. For ten minutes after that a rollback takes seconds."
        )
    ),
    bake_seconds=600,
    steps=(
        Scan(),
        Deploy(share_percent=100),
        SmokeTest(requests=20, timeout_seconds=300),
        Weight(percent=5),
        Hold(seconds=300),
        Weight(percent=25),
        Hold(seconds=600),
        Judge(at_most_seconds=3600, on_insufficient="ask"),
        Approval(),
        Promote(),
    ),
)

CANARY_QUICK = Plan(
    name="canary-quick",
    description=(
        _(
            "For trying things out and for services with little at stake. Less than a minute of "
            "canary before a judge who tolerates more, as that shows only what is gross; then a "
            "person decides, perhaps the requester."
        )
    ),
    bake_seconds=120,
    steps=(
        Scan(timeout_seconds=120),
        Deploy(share_percent=100, ready_within_seconds=180),
        SmokeTest(requests=3, timeout_seconds=60),
        Weight(percent=10),
        Hold(seconds=15),
        Weight(percent=30),
        Hold(seconds=15),
        Judge(at_most_seconds=15, on_insufficient="ask"),
        Approval(separate_requester=False),
        Promote(),
    ),
    judge=JudgeRules(
        errors=IndicatorRules(
            roll_back_above_ratio=1.0,
            roll_back_min_percent=1.0,
            promote_below_ratio=3.0,
            promote_below_percent=3.0,
        ),
        slow=IndicatorRules(roll_back_above_ratio=3.0, promote_below_ratio=5.0),
        min_requests=50,
    ),
)

DIRECT = Plan(
    name="direct",
    description=(
        _(
            "No canary: all traffic at once after a smoke test. For the first version of a "
            "service, which has nothing to be compared with, and for emergencies."
        )
    ),
    bake_seconds=300,
    steps=(
        Scan(),
        Deploy(share_percent=100),
        SmokeTest(requests=10, timeout_seconds=120),
        Promote(),
    ),
)

ROLLBACK = Plan(
    name="rollback",
    description=_("Back to the version before, whose workers have stopped: new ones start first."),
    steps=DIRECT.steps,
)

WARM_ROLLBACK = Plan(
    name="rollback-warm",
    description=_("Back to the version before, whose workers are still up: only the weight moves."),
    steps=(Deploy(share_percent=100), Promote()),
)

DEFAULT_PLAN = CANARY
BUILTIN_PLANS = {plan.name: plan for plan in (CANARY, CANARY_QUICK, DIRECT)}
