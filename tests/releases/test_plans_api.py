"""Release plans over REST."""

from typing import Any

import pytest

from releases.models import Plan
from tests.cast import Api, api, person

pytestmark = pytest.mark.django_db

BODY: dict[str, Any] = {"steps": [{"kind": "deploy", "replicas": 1}, {"kind": "promote"}]}


@pytest.fixture
def ada() -> Api:
    """A developer of two teams."""
    return api(person("ada", vision="developer", speech="developer"))


def test_a_plan_is_made_read_changed_and_deleted(ada: Api) -> None:
    made = ada.post("plans/", {"name": "brief", "team": "vision", "body": BODY})
    assert made.status_code == 201, made.json()
    assert ada.get("plans/brief/").json()["team"] == "vision"
    longer = {
        "steps": [{"kind": "deploy", "replicas": 1}, {"kind": "hold", "seconds": 5}, {"kind": "promote"}]
    }
    assert ada.put("plans/brief/", {"body": longer}).status_code == 200
    assert len(ada.get("plans/brief/").json()["body"]["steps"]) == 3
    assert ada.delete("plans/brief/").status_code == 204
    assert ada.get("plans/brief/").status_code == 404


def test_plans_of_two_teams_with_one_name_are_told_apart_by_the_team(ada: Api) -> None:
    for name in ("vision", "speech"):
        assert ada.post("plans/", {"name": "brief", "team": name, "body": BODY}).status_code == 201
    refused = ada.get("plans/brief/")
    assert refused.status_code == 409
    assert "?team=" in refused.json()["detail"]
    assert "speech, vision" in refused.json()["detail"]
    assert ada.get("plans/brief/?team=speech").json()["team"] == "speech"
    assert ada.delete("plans/brief/").status_code == 409
    assert ada.delete("plans/brief/?team=speech").status_code == 204
    assert list(Plan.objects.values_list("team__name", flat=True)) == ["vision"]


def test_a_built_in_plan_reads_the_same_twice(ada: Api) -> None:
    first = ada.get("plans/canary/")
    assert first.json()["changed_at"] is None
    assert ada.get("plans/canary/", If_None_Match=first["ETag"]).status_code == 304


@pytest.mark.parametrize("verb", ["put", "delete"])
def test_a_built_in_plan_stays_as_it_is(ada: Api, verb: str) -> None:
    body = {"team": "vision", "body": BODY} if verb == "put" else None
    answer = ada.call(verb.upper(), "plans/canary/", body)
    assert answer.status_code in (400, 409, 422)
    assert "built in" in str(answer.json())


def test_who_is_in_several_teams_is_told_which(ada: Api) -> None:
    refused = ada.post("plans/", {"name": "brief", "body": BODY})
    assert refused.status_code == 400
    assert refused.json()["errors"] == {"team": ["Say which team will own it: speech, vision."]}


def test_who_may_write_in_no_team_is_told_whom_to_ask() -> None:
    refused = api(person("vic", vision="viewer")).post("plans/", {"name": "brief", "body": BODY})
    assert refused.status_code == 403
    assert "services.write" in refused.json()["detail"]
    assert "Ask an admin of the team" in refused.json()["detail"]
