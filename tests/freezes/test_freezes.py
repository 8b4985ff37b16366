"""Freezes by page, REST and service: who may make them, what is refused, what ends them."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from accounts.actors import of_user
from accounts.models import Team, User
from common.errors import NotAllowed
from freezes.errors import InvalidFreeze
from freezes.models import Freeze
from freezes.selectors import freeze_now
from freezes.services import create_freeze, remove_freeze, stop_releases
from tests.cast import SYSTEM, api, client_of, person
from tests.cast import team as team_of

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]

WEEKLY = {
    "name": "Weekends",
    "team": "speech",
    "starts_at": "2026-11-20T17:00:00Z",
    "zone": "Europe/Paris",
    "minutes": 3720,
    "recurrence": "FREQ=WEEKLY;BYDAY=FR",
}


@pytest.fixture
def team() -> Team:
    return team_of("speech")


@pytest.fixture
def approver() -> User:
    return person("bo", speech="approver")


def test_a_window_is_made_changed_and_ended_over_rest(approver: User) -> None:
    client = api(approver)
    made = client.post("freezes/", WEEKLY)
    assert made.status_code == 201, made.content
    address = f"freezes/{made.json()['id']}/"
    changed = client.patch(address, {"minutes": 60}, If_Match=made["ETag"])
    assert (changed.status_code, changed.json()["minutes"]) == (200, 60)
    assert client.patch(address, {"minutes": 70}, If_Match=made["ETag"]).status_code == 412
    assert client.delete(address).status_code == 204
    assert client.get(address).status_code == 404
    assert Freeze.objects.get().ended_by == "bo"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"recurrence": "FREQ=WEEKLY;BYDAY=XX"}, "recurrence"),
        ({"recurrence": "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"}, "recurrence"),
        ({"zone": "Mars/Olympus"}, "zone"),
        ({"minutes": 0}, "minutes"),
        ({"minutes": 10_000_000}, "minutes"),
        ({"starts_at": "1990-01-01T00:00:00Z"}, "starts_at"),
        ({"effect": "maybe"}, "effect"),
        ({"cluster": "nowhere"}, None),
        ({"until": "friday"}, "until"),
    ],
)
def test_bad_input_is_refused_by_its_field_and_nothing_is_kept(
    approver: User, change: dict[str, object], field: str | None
) -> None:
    answer = api(approver).post("freezes/", {**WEEKLY, **change})
    assert answer.status_code in (400, 404)
    if field:
        assert field in answer.json()["errors"]
    assert not Freeze.objects.exists()


def test_only_administrators_freeze_every_team(approver: User) -> None:
    without = {key: value for key, value in WEEKLY.items() if key != "team"}
    assert api(approver).post("freezes/", without).status_code == 403
    with pytest.raises(NotAllowed):
        stop_releases(actor=of_user(approver), team=None, reason="Everything.")


def test_a_stop_needs_a_reason_and_ends_by_a_developer(team: Team) -> None:
    developer = of_user(person("ada", speech="developer"))
    with pytest.raises(InvalidFreeze):
        stop_releases(actor=developer, team=team, reason=" ")
    row = stop_releases(actor=developer, team=team, reason="The tokenizer is broken.")
    assert freeze_now(team=team.pk, service="chat", cluster=0) is not None
    assert freeze_now(team=team.pk + 1, service="chat", cluster=0) is None
    remove_freeze(row, actor=developer)
    assert freeze_now(team=team.pk, service="chat", cluster=0) is None


def test_a_freeze_of_all_teams_concerns_each(team: Team) -> None:
    now = timezone.now()
    create_freeze(actor=SYSTEM, team=None, name="Year end", starts_at=now - timedelta(hours=1), minutes=90)
    held = freeze_now(team=team.pk, service="chat", cluster=0)
    assert held is not None
    assert held.until == now + timedelta(minutes=30)


def test_the_page_takes_a_window_by_the_clock_of_its_zone_and_shows_its_times(approver: User) -> None:
    client: Client = client_of(approver)
    friday = timezone.now() + timedelta(days=3)
    given = {
        "name": "Weekends",
        "team": "speech",
        "effect": "deny",
        "zone": "Asia/Shanghai",
        "starts_at": friday.strftime("%Y-%m-%dT18:00"),
        "hours": "62",
        "recurrence": "FREQ=WEEKLY",
        "stage": "chat/production",
    }
    assert client.post("/releases/freezes/+new/", {**given, "recurrence": "weekly"}).status_code == 422
    assert client.post("/releases/freezes/+new/", given).status_code == 302
    row = Freeze.objects.get()
    assert row.starts_at.strftime("%Y-%m-%dT%H:%M") == friday.strftime("%Y-%m-%dT10:00")
    page = client.get("/releases/freezes/").content.decode()
    assert page.count("Weekends") >= 6
    assert "Stage chat/production" in page
    assert client.post("/releases/freezes/+stop/", {"team": "speech", "reason": "Now."}).status_code in (
        302,
        204,
        200,
    )
    assert client.post(f"/releases/freezes/{row.pk}/end/").status_code in (302, 204, 200)
    assert Freeze.objects.in_force().count() == 1
