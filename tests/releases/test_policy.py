"""What a plan lacks of what is demanded. Pure."""

from typing import Any

import pytest

from common.errors import Invalid
from releases.judge.rules import JudgeRules
from releases.plans.builtin import builtin_plan, builtin_plans
from releases.plans.plan import PlanSpec, parse_plan
from releases.policy import NOTHING, ReleasePolicy, demanded_by, lowered, shortfalls, stricter
from releases.services.policy import parse_policy

BUILTIN = list(builtin_plans().values())


def plan(*steps: dict[str, Any], name: str = "own", **rest: Any) -> PlanSpec:
    body = [{"kind": "deploy", "share_percent": 100}, *steps, {"kind": "promote"}]
    return parse_plan({"name": name, "steps": body, **rest})


def weight(percent: int) -> dict[str, Any]:
    return {"kind": "weight", "percent": percent}


def kinds(some: PlanSpec, policy: ReleasePolicy) -> list[str]:
    return [term.kind for term in shortfalls(some, policy)]


END = {"kind": "promote"}
UNLESS = {"when": "unless_certified"}
JUDGE = {"kind": "judge", "on_insufficient": "wait"}
CANARY = demanded_by(builtin_plan("canary"))


@pytest.mark.parametrize("built_in", BUILTIN)
def test_a_plan_lacks_nothing_of_what_it_demands_itself(built_in: PlanSpec) -> None:
    assert shortfalls(built_in, demanded_by(built_in)) == ()


@pytest.mark.parametrize("percent", [60, 99, 100])
def test_a_late_approval_is_what_its_own_plan_demands(percent: int) -> None:
    late = plan(weight(5), weight(percent), {"kind": "approval"})
    demanded = stricter(NOTHING, demanded_by(late))
    assert shortfalls(late, demanded) == ()
    assert demanded.percent_before_approval == percent
    later = plan(weight(100), {"kind": "approval"}, name="later")
    assert kinds(later, demanded) == ([] if percent == 100 else ["lacks.early_approval"])


def test_the_built_in_plans_demand_what_they_say() -> None:
    assert ReleasePolicy(approval="another_person", judge=True) == CANARY
    assert demanded_by(builtin_plan("canary-quick")) == ReleasePolicy(approval="anyone", judge=True)
    assert demanded_by(builtin_plan("direct")) == NOTHING


@pytest.mark.parametrize(
    ("some", "missing"),
    [
        (builtin_plan("direct"), ["lacks.another_person", "lacks.judge"]),
        (builtin_plan("canary-quick"), ["lacks.another_person"]),
        (plan(weight(5), JUDGE), ["lacks.another_person"]),
        (plan(weight(5), JUDGE, {"kind": "approval", "separate_requester": False}), ["lacks.another_person"]),
        (plan(weight(5), JUDGE, {"kind": "approval"} | UNLESS), ["lacks.certain_approval"]),
        (plan(weight(5), JUDGE, weight(100), {"kind": "approval"}), ["lacks.early_approval"]),
        (plan(weight(5), {"kind": "approval"}), ["lacks.judge"]),
        (plan(weight(5), JUDGE | {"on_insufficient": "promote"}, {"kind": "approval"}), ["lacks.evidence"]),
        (plan(weight(5), JUDGE, {"kind": "approval", "keep_judging": False}), ["lacks.judging"]),
    ],
)  # fmt: skip
def test_what_falls_short_of_the_canary_plan_is_named(some: PlanSpec, missing: list[str]) -> None:
    assert kinds(some, CANARY) == missing


@pytest.mark.parametrize(
    "rules",
    [
        {"errors": {"roll_back_above_ratio": 90, "promote_below_ratio": 100}},
        {"errors": {"roll_back_min_percent": 99}},
        {"false_roll_back_percent": 0.01},
        {"abort_above_percent": 99},
        {"min_requests": 1},
    ],
)
def test_a_judge_that_lets_everything_pass_is_none(rules: dict[str, Any]) -> None:
    lenient = plan(weight(5), JUDGE, {"kind": "approval"}, judge=rules)
    assert set(kinds(lenient, CANARY)) == {"lacks.strictness"}
    assert JudgeRules().min_requests >= 20


def test_one_good_approval_is_enough_and_the_first_of_them_counts() -> None:
    twice = plan(weight(40), JUDGE, {"kind": "approval"}, weight(90), {"kind": "approval", "role": "admin"})
    assert kinds(twice, CANARY) == []
    assert kinds(twice, ReleasePolicy(approval="anyone", role="admin")) == ["lacks.early_approval"]


def test_a_plan_of_the_list_is_allowed_and_no_other() -> None:
    policy = ReleasePolicy(plans=("canary", "own"))
    assert kinds(plan(name="own"), policy) == []
    assert "canary, own" in str(shortfalls(builtin_plan("direct"), policy)[0])


def test_the_stricter_of_two_policies_demands_what_both_do() -> None:
    team = ReleasePolicy(approval="another_person", approvers=("bo", "cy"), plans=("canary", "own"))
    service = ReleasePolicy(
        approval="anyone", role="admin", approvers=("bo", "di"), judge=True, plans=("direct",)
    )
    both = stricter(team, service)
    assert both == stricter(service, team)
    assert both.approvers == ("bo",)
    assert both.plans == ()
    assert lowered(team, both) == lowered(service, both) == ()
    assert kinds(builtin_plan("direct"), both)[0] == "lacks.plan"


def test_what_became_easier_is_named() -> None:
    before = ReleasePolicy(approval="another_person", judge=True, plans=("canary",))
    assert lowered(before, before) == ()
    after = ReleasePolicy(approval="anyone", plans=("canary", "direct"))
    assert [term.kind for term in lowered(before, after)] == [
        "approval.another_person", "judge", "plans",
    ]  # fmt: skip
    assert [term.kind for term in lowered(NOTHING, before)] == []
    named = ReleasePolicy(approval="anyone", approvers=("bo",))
    assert str(lowered(named, ReleasePolicy(approval="anyone"))[0]) == "an approval by one of: bo"


def test_a_policy_demands_steps_that_the_candidate_must_pass() -> None:
    demanded = stricter(ReleasePolicy(steps=("evaluate",)), ReleasePolicy(steps=("verify_signature",)))
    assert demanded.steps == ("evaluate", "verify_signature")
    evaluate = {"kind": "evaluate", "items": "tests:v1/items.jsonl"}
    signed = {"kind": "verify_signature"}
    without = parse_plan({"name": "own", "steps": [{"kind": "deploy", "share_percent": 100}, evaluate, END]})
    assert [term.values for term in shortfalls(without, demanded)] == [{"step": "verify_signature"}]
    lenient = {**evaluate, "on_too_few": "continue"}
    steps = [signed, {"kind": "deploy", "share_percent": 100}, lenient, END]
    assert kinds(parse_plan({"name": "own", "steps": steps}), demanded) == ["lacks.step"], "it lets all pass"
    assert [str(one) for one in lowered(demanded, ReleasePolicy(steps=("evaluate",)))] == [
        "a step verify_signature that the candidate must pass"
    ]


@pytest.mark.django_db
def test_a_demanded_step_must_be_a_kind_that_checks_the_candidate() -> None:
    with pytest.raises(Invalid, match="evaluate"):
        parse_policy({"steps": ["hold"]})
    assert parse_policy({"steps": ["evaluate"]}).to_dict()["steps"] == ["evaluate"]
