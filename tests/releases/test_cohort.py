"""A plan can send the candidate the requests of some clients before it has any share."""

import pytest

from gateway.models import Gateway
from releases.errors import InvalidPlan, NotReleasable
from releases.plans.plan import parse_plan
from releases.policy import ReleasePolicy, shortfalls
from releases.services.plan import save_plan
from releases.states import ReleaseState as S
from tests.releases.world import Scene

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.any_database]

BETA = {"x-cohort": "beta"}
COHORT = {"kind": "cohort", "header": "x-cohort", "value": "beta", "seconds": 10, "most_percent": 60}
STEPS = [
    {"kind": "deploy", "share_percent": 100},
    COHORT,
    {"kind": "weight", "percent": 50},
    {"kind": "hold", "seconds": 5},
    {"kind": "promote"},
]


@pytest.fixture
def beta(scene: Scene) -> Scene:
    save_plan(actor=scene.requester, team=scene.team, name="beta", body={"steps": STEPS})
    scene.start(plan_name="beta")
    scene.run_until(lambda: has_cohort(scene))
    return scene


def has_cohort(scene: Scene) -> bool:
    spec = scene.gateway.desired_route(scene.name)
    return spec is not None and spec.cohort is not None


def is_watched(scene: Scene) -> bool:
    scene.release.refresh_from_db()
    return scene.release.phase == "watching"


def is_halved(scene: Scene) -> bool:
    scene.release.refresh_from_db()
    return scene.release.candidate_percent == 50


def ask(scene: Scene, requests: int) -> None:
    scene.gateway.send(scene.name, requests, headers=BETA)


def test_a_cohort_keeps_the_candidate_through_the_weights_and_is_not_judged(beta: Scene) -> None:
    beta.run_until(lambda: is_watched(beta))
    ask(beta, 30)
    assert set(beta.split(50)) == {beta.stable}
    beta.run_until(lambda: is_halved(beta))
    assert has_cohort(beta)
    assert (
        "30 requests of the cohort, 0 with an error" in beta.release.steps.get(kind="cohort").detail["note"]
    )
    beta.run_until_state(S.PROMOTED)
    assert not has_cohort(beta)
    # What the cohort asked is in no figure that is compared.
    hold = beta.release.steps.get(kind="hold").detail
    assert hold["within"]


def test_errors_in_most_of_its_requests_end_the_release(beta: Scene) -> None:
    beta.run_until(lambda: is_watched(beta))
    beta.misbehave(error_share=1.0)
    ask(beta, 25)
    beta.run_until_state(S.ROLLED_BACK)
    assert "25 of 25 requests of the cohort with an error" in beta.release.outcome
    assert not has_cohort(beta)


def test_a_cohort_of_too_many_is_taken_back(beta: Scene) -> None:
    beta.run_until(lambda: is_watched(beta))
    ask(beta, 2_000)
    beta.run_until_state(S.ROLLED_BACK)
    assert "more than 60 %" in beta.release.outcome


def test_what_the_gateway_cannot_is_refused_before_it_starts(scene: Scene) -> None:
    steps = [STEPS[0], COHORT | {"header": "", "cookie": "tier"}, STEPS[4]]
    save_plan(actor=scene.requester, team=scene.team, name="cookies", body={"steps": steps})
    Gateway.objects.update(cannot={"cohort_cookie": "Nobody says that it can."})
    with pytest.raises(NotReleasable, match=r"cohort cookie tier=beta.*Nobody says that it can"):
        scene.start(plan_name="cookies")


@pytest.mark.parametrize(
    ("step", "why"),
    [
        ({"header": "", "value": "x"}, "by a header or by a cookie"),
        ({"header": "x-release"}, "use a header of your own"),
        ({"value": ""}, "a value or a percentage"),
        ({"percent": 10}, "a value or a percentage"),
    ],
)
def test_what_tells_no_cohort_is_refused(step: dict[str, object], why: str) -> None:
    with pytest.raises(InvalidPlan, match=why):
        parse_plan({"name": "x", "steps": [STEPS[0], COHORT | step, STEPS[4]]})


def test_copies_come_before_a_cohort() -> None:
    steps = [STEPS[0], COHORT, {"kind": "mirror", "percent": 20, "seconds": 10}, STEPS[4]]
    with pytest.raises(InvalidPlan, match="put the mirror before it"):
        parse_plan({"name": "x", "steps": steps})


def test_the_most_of_a_cohort_counts_as_exposed_before_the_approval() -> None:
    steps = [STEPS[0], COHORT, {"kind": "approval"}, STEPS[4]]
    policy = ReleasePolicy(approval="anyone", percent_before_approval=50)
    (lack,) = shortfalls(parse_plan({"name": "x", "steps": steps}), policy)
    assert lack.values == {"percent": 60, "most": 50}
