"""Plans as people read them."""

import pytest
from django.utils import translation

from releases.plans.builtin import builtin_plans
from releases.plans.plan import parse_plan
from releases.plans.words import diff, duration, strip
from releases.steps.approval import ApprovalStep
from releases.steps.deploy import DeployStep
from releases.steps.hold import HoldStep
from releases.steps.judge import JudgeStep
from releases.steps.smoke_test import SmokeTestStep
from releases.steps.weight import WeightStep

CANARY, CANARY_QUICK, DIRECT = (builtin_plans()[name] for name in ("canary", "canary-quick", "direct"))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (1, "1 s"),
        (60, "60 s"),
        (119, "119 s"),
        (120, "2 min"),
        (300, "5 min"),
        (3600, "1 h"),
        (5430, "1 h 30 min 30 s"),
        (86400, "1 day"),
        (180000, "2 days 2 h"),
    ],
)
def test_durations_are_told_as_people_say_them(seconds, words):
    assert duration(seconds) == words


def test_a_weight_and_its_hold_share_a_cell_of_the_strip():
    assert [(cell.first, cell.last, cell.label) for cell in strip(CANARY)] == [
        (0, 0, "scan the files"),
        (1, 1, "deploy as many workers as stable"),
        (2, 2, "smoke test: 20 requests"),
        (3, 4, "5 % for 5 min"),
        (5, 6, "25 % for 10 min"),
        (7, 7, "analysis for at most 1 h; if inconclusive: require approval"),
        (8, 8, "approval by an approver"),
        (9, 9, "promote"),
    ]


def test_a_hold_of_its_own_says_what_it_does():
    bake = parse_plan(
        {
            "name": "bake",
            "steps": [
                {"kind": "deploy", "replicas": 1},
                {"kind": "hold", "seconds": 60},
                {"kind": "hold", "seconds": 30},
                {"kind": "promote"},
            ],
        }
    )
    assert [cell.label for cell in strip(bake)] == [
        "deploy 1 worker",
        "hold for 60 s",
        "hold for 30 s",
        "promote",
    ]


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (WeightStep(percent=5), "5 %"),
        (HoldStep(seconds=60), "60 s"),
        (DeployStep(share_percent=25), "deploy 25 % of the workers"),
        (DeployStep(replicas=3), "deploy 3 workers"),
        (SmokeTestStep(requests=1, max_latency_ms=500), "smoke test: 1 request under 500 ms"),
        (JudgeStep(on_insufficient="wait"), "analysis until passed"),
        (
            JudgeStep(at_most_seconds=60, on_insufficient="promote"),
            "analysis for at most 60 s; if inconclusive: continue",
        ),
        (
            JudgeStep(at_most_seconds=60, on_insufficient="roll_back"),
            "analysis for at most 60 s; if inconclusive: roll back",
        ),
        (ApprovalStep(role="admin", when="unless_certified"), "approval by an admin, unless passed"),
    ],
)
def test_every_step_is_told_in_a_few_words(step, words):
    assert step.summary() == words


@pytest.mark.parametrize("plan", [CANARY, CANARY_QUICK, DIRECT])
def test_equal_plans_do_not_differ(plan):
    assert diff(plan, parse_plan(plan.model_dump(mode="json"))) == ()


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (SmokeTestStep(requests=20, max_latency_ms=500), "冒烟测试：20 个请求，每个不超过 500 毫秒"),
        (JudgeStep(at_most_seconds=5400), "分析最长 1 小时 30 分钟；无定论时：需要审批"),
        (ApprovalStep(when="unless_certified"), "由审批人审批，已通过则跳过"),
    ],
)
def test_a_step_is_told_in_the_reader_s_language(step, words):
    with translation.override("zh-hans"):
        assert step.summary() == words


def changed(**fields):
    return CANARY.model_copy(update=fields)


def test_a_changed_figure_is_told_with_its_old_value():
    steps = list(CANARY.steps)
    steps[3] = WeightStep(percent=10)
    steps[8] = ApprovalStep(separate_requester=False, role="admin")
    assert diff(CANARY, changed(steps=tuple(steps))) == (
        "step 4 (weight): percent 10 instead of 5",
        "step 9 (approval): role admin instead of approver",
        "step 9 (approval): separate_requester no instead of yes",
    )


def test_added_and_removed_steps_are_told_without_disturbing_the_others():
    steps = list(CANARY.steps)
    del steps[8]
    steps.insert(2, HoldStep(seconds=30))
    assert diff(CANARY, changed(steps=tuple(steps))) == (
        "added step 3: hold for 30 s",
        "removed step 9: approval by an approver",
    )


def test_changed_rules_and_texts_are_told():
    judge = CANARY.judge.model_copy(
        update={
            "errors": CANARY.judge.errors.model_copy(update={"promote_below_percent": None}),
            "slow": None,
            "false_roll_back_percent": 1.0,
        }
    )
    assert (
        diff(CANARY, changed(name="mine", description="", judge=judge))[0] == "name: mine instead of canary"
    )
    assert diff(CANARY, changed(judge=judge)) == (
        "judge: errors promote_below_percent none instead of 1",
        "judge: slow off instead of on",
        "judge: false_roll_back_percent 1 instead of 5",
    )
    assert diff(changed(judge=judge), CANARY)[1] == "judge: slow on instead of off"


def test_a_different_kind_of_step_is_told_as_removed_and_added():
    assert diff(CANARY, DIRECT)[3:] == (
        "step 3 (smoke_test): requests 10 instead of 20",
        "step 3 (smoke_test): timeout_seconds 120 instead of 300",
        "removed step 4: weight 5 %",
        "removed step 5: hold for 5 min",
        "removed step 6: weight 25 %",
        "removed step 7: hold for 10 min",
        "removed step 8: analysis for at most 1 h; if inconclusive: require approval",
        "removed step 9: approval by an approver",
    )
