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


@pytest.mark.parametrize(
    ("before", "given", "name", "looser"),
    [
        ({"mode": "dry_run"}, {"mode": "act"}, "mode", "act"),
        ({"dry_clusters": ["a", "b"]}, {"dry_clusters": ["a"]}, "dry_clusters", ["a"]),
        ({"windows": [{"start": "22:00", "end": "05:00"}]}, {"windows": []}, "windows", []),
        ({"limits": {}}, {"limits": {"slots_percent": 40}}, "limits.slots_percent", 40.0),
        ({"limits": {}}, {"limits": {"cooldown_seconds": 1}}, "limits.cooldown_seconds", 1.0),
    ],
    ids=["mode", "cluster", "windows", "higher", "shorter"],
)
def test_what_lets_healing_do_more_takes_effect_when_a_second_person_asks_for_the_same(
    people: tuple[User, User], before: dict[str, Any], given: dict[str, Any], name: str, looser: Any
) -> None:
    HealingPolicy.objects.update(**before)
    ada, root = people

    def in_force(answer: dict[str, Any]) -> Any:
        place, _, limit = name.partition(".")
        return answer[place][limit] if limit else answer[place]

    for _ in range(2):
        asked = asks(ada, **given)
        assert in_force(asked) != looser
        assert asked["waiting_changes"] == {name: "ada"}
    agreed = asks(root, **given)

    assert (in_force(agreed), agreed["waiting_changes"]) == (looser, {})


def test_what_makes_healing_more_careful_takes_one_person_and_withdraws_what_was_asked(
    people: tuple[User, User],
) -> None:
    HealingPolicy.objects.update(mode="dry_run")
    asks(people[0], mode="act")
    limits = {"slots_percent": 5, "cooldown_seconds": 900, "approved_actions": ["reset_gpu"]}

    answer = asks(people[1], mode="dry_run", limits=limits)

    assert answer["waiting_changes"] == {}
    assert answer["limits"] == answer["limits"] | limits


def test_a_rule_acts_by_itself_once_two_people_have_said_so(people: tuple[User, User]) -> None:
    ada, root = people
    change = {"mode": "act", "reason": "we trust it"}
    path = "gpu-health/rules/default-xid.119/"
    before = cast.api(ada).get(path).json()

    for _ in range(2):
        answer = cast.api(ada).put(path, change)
        assert (answer.status_code, cast.api(ada).get(path).json()["mode"]) == (409, before["mode"])
    assert cast.api(root).put(path, change).json()["mode"] == "act"
    assert cast.api(ada).put(path, {"mode": "propose", "reason": "careful"}).json()["mode"] == "propose"


def test_a_rule_that_stands_before_one_which_acts_is_not_taken_away_by_one_person(
    people: tuple[User, User],
) -> None:
    ada, root = people
    for person in people:
        cast.api(person).put("gpu-health/rules/default-xid.119/", {"mode": "act", "reason": "we trust it"})
    HealingPolicy.objects.update(two_people=False)
    own = {"fault": "xid.119", "mode": "record", "ladder": ["alert"], "reason": "a bad driver"}
    name = cast.api(ada).post("gpu-health/rules/", own).json()["name"]
    HealingPolicy.objects.update(two_people=True)

    path = f"gpu-health/rules/{name}/"
    assert cast.api(ada).delete(path).status_code == 409
    assert cast.api(root).delete(path).status_code == 204


def test_the_page_shows_what_waits_for_a_second_person(ward: Ward, people: tuple[User, User]) -> None:
    asks(people[0], **without_approvals())

    shown = cast.client_of(people[1]).get("/gpu-health/limits/").content.decode()

    assert "ada asks that reset_gpu is no longer required." in shown
