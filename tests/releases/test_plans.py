"""Plans: what is accepted, what is refused and how, and how they are named."""

import json

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from releases.errors import InvalidPlan
from releases.plans.builtin import DEFAULT_PLAN, builtin_plan, builtin_plans
from releases.plans.plan import canonical_json, parse_plan, plan_hash, plan_schema
from releases.steps.approval import ApprovalStep
from releases.steps.deploy import DeployStep
from releases.steps.hold import HoldStep
from releases.steps.judge import JudgeStep
from releases.steps.promote import PromoteStep
from releases.steps.scan import ScanStep
from releases.steps.smoke_test import SmokeTestStep
from releases.steps.weight import WeightStep

BUILTIN_PLANS = builtin_plans()
CANARY, CANARY_QUICK, DIRECT = (BUILTIN_PLANS[name] for name in ("canary", "canary-quick", "direct"))

DEPLOY = {"kind": "deploy", "share_percent": 100}
SMOKE = {"kind": "smoke_test"}
PROMOTE = {"kind": "promote"}
APPROVAL = {"kind": "approval"}


def weight(percent: int) -> dict:
    return {"kind": "weight", "percent": percent}


def plan(*steps: dict, **fields) -> dict:
    return {"name": "mine", "steps": list(steps), **fields}


def refused(document: object) -> dict[str, str]:
    with pytest.raises(InvalidPlan) as caught:
        parse_plan(document)
    return {problem.path: problem.message for problem in caught.value.problems}


def test_a_plan_may_leave_out_everything_that_has_a_default():
    parsed = parse_plan(plan(DEPLOY, SMOKE, weight(10), {"kind": "judge"}, APPROVAL, PROMOTE))
    assert parsed.steps == (
        DeployStep(share_percent=100),
        SmokeTestStep(),
        WeightStep(percent=10),
        JudgeStep(),
        ApprovalStep(),
        PromoteStep(),
    )


@pytest.mark.parametrize(
    ("document", "path", "words"),
    [
        (
            plan(weight(5), DEPLOY, PROMOTE),
            "steps.0",
            "step 1 (weight): no candidate is running yet; put a deploy step before it",
        ),
        (plan(SMOKE, DEPLOY, PROMOTE), "steps.0", "step 1 (smoke_test): no candidate is running yet"),
        (plan({"kind": "hold", "seconds": 5}, DEPLOY, PROMOTE), "steps.0", "step 1 (hold): nothing happens"),
        (plan(PROMOTE), "steps.0", "step 1 (promote): no candidate is running yet"),
        (plan(DEPLOY), "steps", "the plan never promotes the candidate; end it with a promote step"),
        (plan(DEPLOY, PROMOTE, APPROVAL), "steps.1", "step 2 (promote): the release ends here"),
        (plan(DEPLOY, PROMOTE, PROMOTE), "steps.1", "step 2 (promote): the release ends here"),
        (plan(DEPLOY, {"kind": "scan"}, PROMOTE), "steps.1", "step 2 (scan): the version is already running"),
        (
            plan(DEPLOY, weight(5), SMOKE, PROMOTE),
            "steps.2",
            "step 3 (smoke_test): the candidate already has real traffic",
        ),
        (
            plan(DEPLOY, weight(25), weight(25), PROMOTE),
            "steps.2.percent",
            "step 3 (weight): the weight is already 25 %",
        ),
        (plan(DEPLOY, weight(25), weight(5), PROMOTE), "steps.2.percent", "weights only rise"),
        (
            plan({"kind": "deploy", "share_percent": 20}, weight(50), DEPLOY, PROMOTE),
            "steps.1.percent",
            "step 2 (weight): 50 % of the traffic would meet 20 % of the workers",
        ),
        (
            plan({"kind": "deploy", "share_percent": 50}, weight(50), PROMOTE),
            "steps.2",
            "step 3 (promote): all traffic would go to 50 % of the workers",
        ),
        (
            plan(DEPLOY, {"kind": "deploy", "share_percent": 50}, PROMOTE),
            "steps.1.share_percent",
            "step 2 (deploy): starts a smaller share than the 100 % before",
        ),
        (
            plan({"kind": "deploy", "replicas": 3}, {"kind": "deploy", "replicas": 2}, PROMOTE),
            "steps.1.replicas",
            "step 2 (deploy): starts fewer workers than the 3 before it",
        ),
        (
            plan(DEPLOY, {"kind": "judge"}, APPROVAL, PROMOTE),
            "steps.1",
            "step 2 (judge): a candidate without traffic cannot be judged",
        ),
        (
            plan(DEPLOY, weight(100), {"kind": "judge"}, APPROVAL, PROMOTE),
            "steps.2",
            "step 3 (judge): at 100 % stable answers nothing to compare with",
        ),
        (
            plan(DEPLOY, APPROVAL, weight(5), {"kind": "judge"}, PROMOTE),
            "steps.3.on_insufficient",
            "step 4 (judge): on_insufficient is ask, but no later approval asks",
        ),
        (
            plan(DEPLOY, APPROVAL | {"when": "unless_certified"}, PROMOTE),
            "steps.1.when",
            "step 2 (approval): nothing before it can pass the candidate",
        ),
        (
            plan(DEPLOY, *[{"kind": "hold", "seconds": 604800}] * 5, PROMOTE),
            "steps",
            "the holds together last more than 30 days",
        ),
        (
            plan({"kind": "deploy"}, PROMOTE),
            "steps.0",
            "step 1 (deploy): say either replicas or share_percent",
        ),
        (plan(DEPLOY | {"replicas": 2}, PROMOTE), "steps.0", "say either replicas or share_percent"),
        (
            plan(DEPLOY, {"kind": "hold", "seconds": "60"}, PROMOTE),
            "steps.1.seconds",
            "step 2 (hold): seconds: Input should be a valid integer",
        ),
        (plan(DEPLOY, {"kind": "hold", "seconds": 60.5}, PROMOTE), "steps.1.seconds", "valid integer"),
        (plan(DEPLOY, {"kind": "hold", "seconds": True}, PROMOTE), "steps.1.seconds", "valid integer"),
        (
            plan(DEPLOY, {"kind": "hold", "seconds": 0}, PROMOTE),
            "steps.1.seconds",
            "greater than or equal to 1",
        ),
        (
            plan(DEPLOY, {"kind": "hold"}, PROMOTE),
            "steps.1.seconds",
            "step 2 (hold): seconds: Field required",
        ),
        (plan(DEPLOY, weight(101), PROMOTE), "steps.1.percent", "less than or equal to 100"),
        (
            plan(DEPLOY, weight(5) | {"percnt": 6}, PROMOTE),
            "steps.1.percnt",
            "step 2 (weight): percnt: There is no such field. Known: kind, percent.",
        ),
        (plan(DEPLOY, {"kind": "shade"}, PROMOTE), "steps.1", "step 2: There is no such kind. Known: scan, "),
        (plan(DEPLOY, "promote"), "steps.1", "step 2: "),
        (plan(), "steps", "steps: "),
        (plan(DEPLOY, PROMOTE, name="Mine!"), "name", "name: "),
        (plan(DEPLOY, PROMOTE, owner="me"), "owner", "owner: There is no such field. Known: format, name, "),
        (plan(DEPLOY, PROMOTE, format=2), "format", "format: "),
        (
            plan(DEPLOY, PROMOTE, judge={"errors": {"promote_below_ratio": 1.0}}),
            "judge.errors.promote_below_ratio",
            "greater than 1",
        ),
        (plan(DEPLOY, PROMOTE, judge={"slow": {"roll_back_above_ratio": 3}}), "judge.slow", "must be above"),
        (plan(DEPLOY, PROMOTE, judge={"false_roll_back_percent": 90}), "judge.false_roll_back_percent", "20"),
        ("{", "", "Invalid JSON"),
        (None, "", "valid dictionary"),
        ([1, 2], "", "valid dictionary"),
    ],
)
def test_a_plan_that_cannot_work_is_refused_where_and_why(document, path, words):
    problems = refused(document)
    assert words in problems[path]


def test_all_problems_are_told_at_once():
    problems = refused(plan(weight(5), SMOKE, weight(3), APPROVAL))
    assert {"steps.0", "steps.1", "steps.2.percent", "steps"} <= set(problems)
    problems = refused(plan(DEPLOY, {"kind": "hold", "seconds": 0}, weight(0), PROMOTE, name=""))
    assert set(problems) == {"steps.1.seconds", "steps.2.percent", "name"}
    assert set(refused(plan({"kind": "shade"}))) == {"steps.0"}


def test_a_refusal_reads_as_one_sentence_per_problem():
    with pytest.raises(InvalidPlan) as refusal:
        parse_plan(plan(weight(5), {"kind": "hold", "seconds": 9}, DEPLOY, PROMOTE))
    assert str(refusal.value) == (
        "step 1 (weight): no candidate is running yet; put a deploy step before it; "
        "step 2 (hold): nothing happens while it holds; put a deploy step before it"
    )


def test_steps_that_raise_capacity_before_weight_are_accepted():
    accepted = parse_plan(
        plan(
            {"kind": "scan"},
            {"kind": "deploy", "share_percent": 25},
            SMOKE,
            weight(25),
            {"kind": "judge", "on_insufficient": "wait"},
            APPROVAL | {"when": "unless_certified"},
            DEPLOY,
            weight(100),
            {"kind": "hold", "seconds": 60},
            PROMOTE,
        )
    )
    assert len(accepted.steps) == 10


def test_plans_are_frozen():
    with pytest.raises(ValidationError):
        CANARY.name = "other"  # type: ignore[misc]
    with pytest.raises(ValidationError):
        CANARY.steps[3].percent = 50  # type: ignore[misc,union-attr]
    with pytest.raises(ValidationError):
        CANARY.judge.errors.promote_below_ratio = 9.0  # type: ignore[misc]


@pytest.mark.parametrize("builtin", BUILTIN_PLANS.values(), ids=BUILTIN_PLANS)
def test_builtin_plans_survive_being_written_and_read(builtin):
    text = canonical_json(builtin)
    assert parse_plan(text) == builtin
    assert parse_plan(json.loads(text)) == builtin
    assert plan_hash(parse_plan(text)) == plan_hash(builtin)
    assert builtin.description


@pytest.mark.parametrize("builtin", BUILTIN_PLANS.values(), ids=BUILTIN_PLANS)
def test_the_schema_accepts_what_the_parser_accepts(builtin):
    schema = plan_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads(canonical_json(builtin)), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(plan(DEPLOY, {"kind": "hold", "seconds": 0}, PROMOTE), schema)


def test_the_schema_can_point_into_openapi():
    assert "#/components/schemas/Hold" in json.dumps(plan_schema(ref_template="#/components/schemas/{model}"))


def test_the_hash_names_the_content_not_the_spelling():
    terse = parse_plan(plan(DEPLOY, PROMOTE))
    wordy = parse_plan(json.dumps(plan(DEPLOY | {"ready_within_seconds": 900}, PROMOTE, format=1), indent=4))
    assert plan_hash(terse) == plan_hash(wordy)
    assert len(plan_hash(terse)) == 64
    assert plan_hash(terse) != plan_hash(parse_plan(plan(DEPLOY | {"ready_within_seconds": 901}, PROMOTE)))


def test_the_canonical_text_is_pinned_so_that_stored_hashes_stay_true():
    assert canonical_json(parse_plan(plan(DEPLOY, PROMOTE, judge={"slow": None}))) == (
        '{"bake_seconds":0,"description":"","format":1,"judge":{"abort_above_percent":50.0,"abort_min_requests":20,"errors":'
        '{"promote_below_percent":1.0,"promote_below_ratio":2.0,"roll_back_above_ratio":1.0,'
        '"roll_back_min_percent":0.1},"false_promote_percent":10.0,"false_roll_back_percent":5.0,'
        '"indicators":{},"latencies":{},"min_requests":100,"requests_per_session":1,"slow":null,"slow_above_ms":null},"name":"mine","steps":[{"kind":"deploy","ready_within_seconds":900,'
        '"replicas":null,"share_percent":100},{"kind":"promote"}]}'
    )


def test_the_default_plan_is_a_canary_that_asks_someone_else():
    assert builtin_plan(DEFAULT_PLAN) is CANARY
    approvals = [step for step in CANARY.steps if isinstance(step, ApprovalStep)]
    assert [step.separate_requester for step in approvals] == [True]
    assert isinstance(CANARY.steps[0], ScanStep)


def test_the_quick_canary_reaches_its_approval_within_a_minute_of_being_deployed():
    before = CANARY_QUICK.steps[: [step.kind for step in CANARY_QUICK.steps].index("approval")]
    seconds = 0
    for step in before:
        if isinstance(step, HoldStep):
            seconds += step.seconds
        elif isinstance(step, JudgeStep):
            seconds += step.at_most_seconds
            assert step.on_insufficient == "ask"
    assert seconds <= 50


def test_the_direct_plan_gives_no_traffic_before_its_smoke_test_and_none_by_weight():
    assert [step.kind for step in DIRECT.steps] == ["scan", "deploy", "smoke_test", "promote"]


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(["name", "steps", "kind", "percent", "seconds", "judge", "errors", "x"]),
                inner,
                max_size=4,
            )
        ),
        max_leaves=20,
    )
)
def test_nonsense_is_refused_in_words_and_never_by_accident(document):
    with pytest.raises(InvalidPlan) as refusal:
        parse_plan(document)
    assert refusal.value.problems
    assert all(problem.message for problem in refusal.value.problems)
