"""Where the policy says so, nobody alone widens what healing does without an approval, or uses it."""

from typing import Any

import pytest

from accounts.models import User
from gpu_health.models import HealingPolicy
from tests import cast
from tests.gpu_health.healing import LIMITS, Ward

pytestmark = pytest.mark.django_db
CHANGE = "gpu-health/healing/change/"


@pytest.fixture
def ward() -> Ward:
    return Ward(two_people=True, limits=LIMITS | {"approved_actions": ["reset_gpu"]})


@pytest.fixture
def people(ward: Ward) -> tuple[User, User]:
    return cast.person("ada", superuser=True), cast.person("root", superuser=True)


def asks(person: User, **given: Any) -> dict[str, Any]:
    answer = cast.api(person).post(CHANGE, {"reason": "we trust resets", **given})
    assert answer.status_code == 200, answer.content
    return answer.json()


def without_approvals() -> dict[str, Any]:
    return {"limits": LIMITS | {"approved_actions": []}}


def approves(person: User, ward: Ward) -> int:
    path = f"gpu-health/incidents/{ward.incident.pk}/approve/"
    return cast.api(person).post(path, {"reason": "seen"}).status_code


def test_an_action_needs_an_approval_until_two_people_have_said_that_it_does_not(
    ward: Ward, people: tuple[User, User]
) -> None:
    ada, root = people
    for _ in range(2):
        changed = asks(ada, **without_approvals())
        assert changed["limits"]["approved_actions"] == ["reset_gpu"]
        assert changed["waiting_changes"] == {"reset_gpu": "ada"}
    ward.finding()
    ward.run(lambda: ward.incident.hold == "approval")

    changed = asks(root, **without_approvals())

    assert (changed["limits"]["approved_actions"], changed["waiting_changes"]) == ([], {})
    ward.run("closed")


def test_whoever_asked_for_it_cannot_approve_the_action_either(ward: Ward, people: tuple[User, User]) -> None:
    ada, root = people
    asks(ada, **without_approvals())
    ward.finding()
    ward.run(lambda: ward.incident.hold == "approval")

    assert approves(ada, ward) == 403
    assert approves(root, ward) == 200


def test_whoever_made_an_action_take_an_approval_does_not_give_it(
    ward: Ward, people: tuple[User, User]
) -> None:
    ada, root = people
    HealingPolicy.objects.update(limits=LIMITS | {"approved_actions": []})
    asks(ada, limits=LIMITS | {"approved_actions": ["reset_gpu"]})
    ward.finding()
    ward.run(lambda: ward.incident.hold == "approval")

    assert approves(ada, ward) == 403
    assert approves(root, ward) == 200


def test_somebody_else_withdraws_it_by_keeping_the_approval(ward: Ward, people: tuple[User, User]) -> None:
    ada, root = people
    asks(ada, **without_approvals())

    changed = asks(root, limits=LIMITS | {"approved_actions": ["reset_gpu"]})

    assert changed["waiting_changes"] == {}
    assert changed["limits"]["approved_actions"] == ["reset_gpu"]


def test_the_demand_for_two_people_is_lifted_by_two_people(ward: Ward, people: tuple[User, User]) -> None:
    ada, root = people
    assert asks(ada, two_people=False)["two_people"]
    assert asks(ada, mode="act")["waiting_changes"] == {"two_people": "ada"}
    asks(ada, **without_approvals())
    assert HealingPolicy.objects.get().figures.approved_actions == ("reset_gpu",)

    assert not asks(root, two_people=False)["two_people"]


def test_one_person_is_enough_where_the_policy_does_not_ask_for_two(people: tuple[User, User]) -> None:
    HealingPolicy.objects.update(two_people=False)

    assert asks(people[0], **without_approvals())["limits"]["approved_actions"] == []


def test_the_page_shows_what_waits_for_a_second_person(ward: Ward, people: tuple[User, User]) -> None:
    asks(people[0], **without_approvals())

    shown = cast.client_of(people[1]).get("/gpu-health/limits/").content.decode()

    assert "ada asks that reset_gpu is no longer required." in shown
