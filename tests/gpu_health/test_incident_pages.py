"""What people see of healing, and what they may do about it."""

import pytest

from accounts.models import User
from accounts.states import Role
from clusters.backends.observed_pods import ObservedPod
from clusters.models import Drain
from clusters.overview import cell_of
from clusters.selectors import whole_fleet
from gpu_health.models import HealingPolicy, Incident
from gpu_health.services.draining import drains_under_way
from tests import cast
from tests.gpu_health.healing import FAILED, PASSED, Ward

pytestmark = pytest.mark.django_db


@pytest.fixture
def ward() -> Ward:
    return Ward()


@pytest.fixture
def olga(ward: Ward) -> User:
    return cast.person("olga", serving=Role.OPERATOR)


@pytest.fixture
def root(ward: Ward) -> User:
    return cast.person("root", superuser=True)


def test_the_incident_page_has_its_ladder_and_its_timeline(ward: Ward, olga: User) -> None:
    ward.finding()
    incident = ward.run("closed")

    shown = cast.client_of(olga).get(f"/gpu-health/incidents/{incident.pk}/").content.decode()

    for words in (
        "reset_gpu",
        "NVRM: Xid",
        "The machine is cordoned and tainted.",
        "The check has passed on GPU-fake",
    ):
        assert words in shown
    listed = cast.client_of(olga).get("/gpu-health/incidents/").content.decode()
    assert f"/gpu-health/incidents/{incident.pk}/" in listed


def test_a_machine_has_the_mark_of_a_faulty_one_until_it_is_healed(ward: Ward, olga: User) -> None:
    def marks() -> set[tuple[str, bool]]:
        cells = [cell_of(one) for cluster in whole_fleet().clusters for one in cluster.nodes]
        return {(one.mark, "faulty" in one.label) for one in cells if one.mark == "virus"}

    ward.finding(outcome="propose")
    ward.run(lambda: ward.incident.waits_for_approval)
    assert marks() == {("virus", True)}

    Incident.objects.update(state="watching")
    assert marks() == set()


def test_rest_serves_incidents_as_remediations_too(ward: Ward, olga: User) -> None:
    ward.finding(outcome="propose")
    ward.run(lambda: ward.incident.waits_for_approval)
    rest = cast.api(olga)
    path = f"gpu-health/remediations/{ward.incident.pk}/"
    assert [one["id"] for one in rest.get("gpu-health/remediations/").json()["results"]] == [ward.incident.pk]
    assert rest.post(f"{path}approve/", {"reason": "seen the rack"}).status_code == 200
    assert not rest.get(path).json()["waits_for_approval"]


def test_what_waits_for_an_approval_is_on_home_and_goes_on_when_approved(ward: Ward, olga: User) -> None:
    ward.finding(outcome="propose")
    ward.run(lambda: ward.incident.waits_for_approval)
    browser = cast.client_of(olga)
    page = f"/gpu-health/incidents/{ward.incident.pk}/"
    assert page in browser.get("/").content.decode()

    browser.post(f"{page}+approve/", {"reason": "seen the rack"})

    ward.run("closed")
    assert "olga" in ward.incident.timeline.values_list("actor", flat=True)


def test_the_kill_switch_stops_everything_until_an_administrator_switches_it_off(
    ward: Ward, olga: User, root: User
) -> None:
    ward.finding()
    cast.client_of(olga).post("/gpu-health/+stop/", {"reason": "storm"})

    ward.run(lambda: ward.incident.hold == "kill_switch")
    assert ward.incident.hold_reason == "The kill switch is on: olga: storm"
    assert "storm" in cast.client_of(olga).get("/gpu-health/+notice/").content.decode()
    assert "/gpu-health/+notice/" in cast.client_of(olga).get("/").content.decode()
    cast.client_of(olga).post("/gpu-health/+restart/", {"reason": "over"})
    assert HealingPolicy.objects.get().is_stopped

    cast.client_of(root).post("/gpu-health/+restart/", {"reason": "over"})
    ward.run("closed")
    assert cast.client_of(olga).get("/gpu-health/+notice/").content == b""


def test_the_kill_switch_stops_drains_that_are_under_way_if_asked_to(ward: Ward, olga: User) -> None:
    ward.finding()
    ward.operations.pods = lambda _node: (
        ObservedPod(uid="p1", name="train-0", namespace="research", gpus={"nvidia.com/gpu": 4}),
    )
    ward.run(lambda: drains_under_way().exists())
    browser = cast.client_of(olga)

    browser.post("/gpu-health/+stop/", {"reason": "storm"})
    assert drains_under_way().exists(), "what is under way goes on unless somebody says otherwise"
    assert "1 drain of healing is under way." in browser.get("/gpu-health/incidents/").content.decode()

    answer = cast.api(olga).post("gpu-health/healing/stop/", {"reason": "storm", "stop_drains": True})
    assert answer.status_code == 200
    ward.run(lambda: Drain.objects.get().state == "cancelled")
    assert Drain.objects.get().cancel_reason == "Kill switch: olga: storm"
    assert ward.operations.cordoned, "the machine stays out of service"


def test_a_stranger_sees_and_does_nothing(ward: Ward) -> None:
    ward.finding()
    stranger = cast.client_of(cast.person("sam", vision=Role.ADMIN))
    page = f"/gpu-health/incidents/{ward.incident.pk}/"
    assert stranger.get(page).status_code == 404
    assert stranger.post(f"{page}+cancel/return/", {"reason": "x"}).status_code == 404


def test_rest_shows_incidents_with_their_timeline_and_takes_what_people_decide(
    ward: Ward, olga: User
) -> None:
    ward.programs.checks = [FAILED]
    ward.finding()
    ward.run("needs_person")
    api = cast.api(olga)
    path = f"gpu-health/incidents/{ward.incident.pk}/"

    (listed,) = api.get("gpu-health/incidents/?state=needs_person").json()["results"]
    told = api.get(f"{path}timeline/").json()["results"]

    assert (listed["node"], listed["is_quarantined"], listed["action"]) == (
        "fake-node",
        True,
        "contact_support",
    )
    assert told[0]["words"].startswith("Seen: NVRM")
    assert api.get(f"{path}evidence/").json()["evidence"]["machine"]["name"] == "fake-node"
    assert api.post(f"{path}approve/", {"reason": "x"}).status_code == 409
    ward.programs.checks = [PASSED]
    assert api.post(f"{path}verify/", {"reason": "reseated"}).json()["state"] == "verifying"
    ward.run("closed")


def test_only_administrators_change_the_policy_and_what_cannot_be_meant_is_refused(
    ward: Ward, olga: User, root: User
) -> None:
    change = "gpu-health/healing/change/"
    assert cast.api(olga).post(change, {"mode": "act", "reason": "x"}).status_code == 403
    api = cast.api(root)
    for wrong in ({"mode": "yes"}, {"limits": {"slots": 1}}, {"windows": [{"start": "25:00", "end": "1"}]},
                  {"drain": {"grace_seconds": -1}}):  # fmt: skip
        assert api.post(change, {**wrong, "reason": "x"}).status_code == 400, wrong
    changed = api.post(change, {"limits": {"slots_percent": 5}, "reason": "careful"}).json()
    assert changed["limits"]["slots_percent"] == 5
    assert changed["limits"]["lemon_remediations"] == 5
