"""A plan may ask for the approval of several people, and a policy may demand that it does."""

import pytest

from accounts import actors
from accounts.models import Membership, User
from accounts.states import Role
from common.actor import Actor
from releases.errors import BelowPolicy, NotWaiting
from releases.plans.plan import PlanSpec, parse_plan, plan_hash
from releases.policy import ReleasePolicy, demanded_by, lowered, shortfalls
from releases.selectors.releases import waiting_for
from releases.services.approval import approve, reject
from releases.services.plan import save_plan
from releases.services.policy import set_team_policy
from releases.states import ReleaseState
from tests.cast import SYSTEM, client_of
from tests.releases.browsing import as_person, text_of
from tests.releases.world import SWIFT, Scene

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]

S = ReleaseState


def of_people(number: int) -> dict[str, object]:
    steps = [{**step, "people": number} if step["kind"] == "approval" else step for step in SWIFT["steps"]]
    return {"steps": steps}


def plan(number: int) -> PlanSpec:
    return parse_plan({**of_people(number), "name": "swift"})


def another(scene: Scene, name: str) -> Actor:
    user = User.objects.create(username=name)
    Membership.objects.create(user=user, team=scene.team, role=Role.APPROVER)
    return actors.of_user(user)


@pytest.fixture
def waiting_for_two(scene: Scene) -> Scene:
    save_plan(actor=SYSTEM, team=scene.team, name="swift", body=of_people(2))
    scene.start()
    scene.run_until_state(S.WAITING_APPROVAL)
    return scene


@pytest.mark.every_database
def test_one_of_two_approvals_moves_nothing_and_the_second_does(waiting_for_two: Scene) -> None:
    scene = waiting_for_two
    cy = another(scene, "cy")
    approve(scene.release, actor=scene.approver, reason="Reads well.")
    scene.run_for(20)
    assert scene.state() == S.WAITING_APPROVAL
    assert not waiting_for(scene.approver).exists()
    assert waiting_for(cy).exists()
    with pytest.raises(NotWaiting):
        approve(scene.release, actor=scene.approver, reason="Once more.")

    approve(scene.release, actor=cy, reason="For me, too.")
    scene.run_until_state(S.PROMOTED)
    assert scene.release.steps.get(kind="approval").actor == "bo, cy"


def test_one_person_rejects_whatever_another_said(waiting_for_two: Scene) -> None:
    scene = waiting_for_two
    approve(scene.release, actor=scene.approver, reason="Reads well.")
    reject(scene.release, actor=another(scene, "cy"), reason="It swears.")
    scene.run_until_state(S.REJECTED)


def test_nobody_decides_twice(waiting_for_two: Scene) -> None:
    scene = waiting_for_two
    approve(scene.release, actor=scene.approver, reason="Reads well.")
    with pytest.raises(NotWaiting):
        reject(scene.release, actor=scene.approver, reason="On second thought.")


def test_the_page_says_how_many_have_approved_and_asks_the_others(waiting_for_two: Scene) -> None:
    scene = waiting_for_two
    another(scene, "cy")
    address = f"/releases/{scene.release.pk}/"
    assert "1 more person must approve after you" in text_of(as_person("bo", scene), address)
    approve(scene.release, actor=scene.approver, reason="Reads well.")
    of_bo = client_of(User.objects.get(username="bo")).get(address).content.decode()
    of_cy = client_of(User.objects.get(username="cy")).get(address).content.decode()
    assert "1 of 2 people have approved" in of_bo
    assert f"ask-approve-{scene.release.pk}" not in of_bo
    assert f"ask-approve-{scene.release.pk}" in of_cy


def test_a_policy_demands_as_many_people(scene: Scene) -> None:
    policy = {"approval": "anyone", "people": 2}
    set_team_policy(actor=SYSTEM, team=scene.team, policy=policy)
    with pytest.raises(BelowPolicy):
        scene.start()
    save_plan(actor=SYSTEM, team=scene.team, name="swift", body=of_people(2))
    scene.start()


def test_fewer_people_are_a_lower_demand() -> None:
    two, one = ReleasePolicy(approval="anyone", people=2), ReleasePolicy(approval="anyone")
    assert [term.kind for term in lowered(two, one)] == ["people"]
    assert [term.kind for term in shortfalls(plan(1), two)] == ["lacks.people"]
    assert not shortfalls(plan(2), two)
    assert demanded_by(plan(2)).people == 2


def test_a_plan_for_one_person_is_written_as_the_release_before_wrote_it() -> None:
    assert "people" not in str(plan(1).model_dump(mode="json"))
    assert plan_hash(plan(1)) == plan_hash(parse_plan({**SWIFT, "name": "swift"}))
    assert plan_hash(plan(1)) != plan_hash(plan(2))
