"""A field that nobody knows is refused, wherever it stands in a body, and nothing is done."""

import pytest
from rest_framework import serializers

from accounts.models import ApiToken, Team
from common.api.bodies import unknown_fields
from tests.cast import Api, api, person, team

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]


@pytest.fixture
def root() -> Api:
    team("vision")
    return api(person("root", superuser=True))


class PartSerializer(serializers.Serializer):
    path = serializers.CharField()


class Whole(serializers.Serializer):
    id = serializers.IntegerField(read_only=True)
    parts = PartSerializer(many=True)
    settings = serializers.DictField()


def test_a_misspelt_field_is_refused_and_those_that_exist_are_named(root):
    answer = root.post("tokens/", {"name": "ci", "scopes": ["read"], "teams": "vision"})
    assert (answer.status_code, answer["Content-Type"]) == (400, "application/problem+json")
    assert answer.json()["type"] == "urn:slipway:problem:invalid"
    assert answer.json()["errors"] == {
        "teams": ["There is no such field. Known: expires_at, name, owner, preset, scopes, services, team."]
    }
    assert ApiToken.objects.count() == 1


def test_a_change_of_what_cannot_be_changed_is_refused(root):
    answer = root.patch("teams/vision/", {"name": "speech", "description": "New."})
    assert answer.json()["errors"] == {"name": ["There is no such field. Known: description."]}
    assert Team.objects.get().description == ""


def test_what_else_is_wrong_is_told_in_the_same_answer(root):
    answer = root.post("teams/", {"nmae": "speech"})
    assert answer.json()["errors"].keys() == {"name", "nmae"}


def test_a_refused_body_leaves_its_idempotency_key_free(root):
    assert root.post("teams/", {"name": "speech", "x": 1}, Idempotency_Key="k1").status_code == 400
    assert root.post("teams/", {"name": "speech"}, Idempotency_Key="k1").status_code == 201


def test_an_action_without_a_body_takes_no_fields(root):
    made = root.post(
        "webhooks/", {"url": "https://ci.example/hook", "team": "vision", "events": ["version.ready"]}
    )
    assert made.status_code == 201, made.json()
    path = f"{made['Location']}rotate-secret/"
    assert root.post(path, {"reason": "x"}).json()["errors"] == {
        "reason": ["There is no such field. Known: none."]
    }
    assert root.post(path, {}).status_code == 200


def test_fields_inside_lists_are_named_by_their_place():
    body = {"parts": [{"path": "a"}, {"path": "b", "size": 1}], "settings": {"any": "thing"}}
    assert unknown_fields(Whole(), body) == {"parts.1.size": ["There is no such field. Known: path."]}


def test_fields_that_are_only_shown_may_be_sent_back():
    assert unknown_fields(Whole(), {"id": 7, "parts": [], "settings": {}}) == {}


@pytest.mark.parametrize("body", [None, 7, "text", ["parts"], {"parts": 7}, {"parts": {"x": 1}}])
def test_bodies_of_another_shape_are_left_to_the_serializer(body):
    assert unknown_fields(Whole(), body) == {}


def test_of_many_unknown_fields_twenty_are_named():
    named = unknown_fields(Whole(), {"parts": [{"x" * 1000: 1}] * 500})
    assert (len(named), max(len(name) for name in named)) == (20, 109)
