"""Plans of the next release, read by this one while both run."""

import pytest

from common.reconcile import NotKnownHere
from releases.errors import InvalidPlan
from releases.plans.builtin import builtin_plan
from releases.plans.later import LaterStep, refuse_later, stored_plan
from releases.plans.words import strip

CANARY = builtin_plan("canary").model_dump(mode="json")
LATER = {"kind": "announce", "channel": "#releases"}


def test_a_step_of_a_later_kind_is_shown_and_left_alone_and_the_others_are_known():
    plan = stored_plan({**CANARY, "steps": [*CANARY["steps"][:3], LATER, *CANARY["steps"][3:]]})
    assert [isinstance(step, LaterStep) for step in plan.steps].count(True) == 1
    assert plan.steps[3].name() == "announce"
    assert any("newer release" in cell.label for cell in strip(plan))
    assert plan.judge == builtin_plan("canary").judge
    with pytest.raises(NotKnownHere):
        plan.steps[3].executor()
    with pytest.raises(InvalidPlan, match="announce"):
        refuse_later(plan)


@pytest.mark.parametrize("more", [{"max_cost": 3}, {"judge": {**CANARY["judge"], "by": "committee"}}])
def test_what_is_said_beside_the_steps_may_change_what_they_mean(more):
    plan = stored_plan({**CANARY, **more})
    assert all(isinstance(step, LaterStep) for step in plan.steps)
    assert plan.bake_seconds == CANARY["bake_seconds"]


def test_a_later_field_makes_its_step_a_later_one():
    first = {**CANARY["steps"][0], "deeply": True}
    plan = stored_plan({**CANARY, "steps": [first, *CANARY["steps"][1:]]})
    assert [isinstance(step, LaterStep) for step in plan.steps[:2]] == [True, False]
    refuse_later(stored_plan(CANARY))
