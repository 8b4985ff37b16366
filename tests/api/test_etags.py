"""ETags name a state; If-Match changes only that state, also when two change it at the same moment."""

import threading

import pytest
from django.db import connection

from accounts.models import Team
from accounts.services import teams
from common.errors import Stale
from tests.cast import SYSTEM, Api, api, person, team

pytestmark = pytest.mark.django_db


@pytest.fixture
def root() -> Api:
    team("vision")
    return api(person("root", superuser=True))


def test_an_unchanged_thing_is_a_304_without_a_body(root):
    etag = root.get("teams/vision/")["ETag"]
    again = root.get("teams/vision/", If_None_Match=etag)
    assert (again.status_code, again.content, again["ETag"]) == (304, b"", etag)
    assert root.get("teams/vision/", If_None_Match=f'"other", W/{etag}').status_code == 304
    assert root.get("teams/vision/", If_None_Match='"other"').status_code == 200


def test_the_etag_changes_when_anything_shown_changes(root):
    ada = person("ada")
    before = root.get("people/ada/")["ETag"]
    teams.set_role(actor=SYSTEM, user=ada, team=team("vision"), role="viewer")
    after = root.get("people/ada/")["ETag"]
    assert before != after
    # The person's own row did not change: who read it before may still change it.
    assert root.patch("people/ada/", {"first_name": "Ada"}, If_Match=before).status_code == 200


@pytest.mark.parametrize("condition", ['"0-x"', '"garbage"', "garbage", '""', 'W/"9-x"', '"1"x', ","])
def test_what_the_condition_does_not_name_is_not_changed(root, condition):
    teams.change_team(actor=SYSTEM, team=team("vision"), description="now at revision 2")
    answer = root.patch("teams/vision/", {"description": "x"}, If_Match=condition)
    assert answer.status_code == 412
    assert answer.json()["type"] == "urn:slipway:problem:stale"
    assert team("vision").description == "now at revision 2"


def test_any_of_several_tags_and_the_star_will_do(root):
    etag = root.get("teams/vision/")["ETag"]
    assert root.patch("teams/vision/", {"description": "a"}, If_Match=f'"9-x", {etag}').status_code == 200
    assert root.patch("teams/vision/", {"description": "b"}, If_Match="*").status_code == 200
    assert root.patch("teams/vision/", {"description": "c"}, If_Match=etag).status_code == 412
    assert root.patch("teams/vision/", {"description": "d"}).status_code == 200


def test_a_change_between_the_look_and_the_write_is_noticed(root, monkeypatch):
    """The view has compared the tag already: only the compare-and-set in the service can notice."""
    etag = root.get("teams/vision/")["ETag"]
    real = teams.change_team

    def interrupted(**fields):
        real(actor=SYSTEM, team=team("vision"), description="theirs")
        return real(**fields)

    monkeypatch.setattr(teams, "change_team", interrupted)
    assert root.patch("teams/vision/", {"description": "mine"}, If_Match=etag).status_code == 412
    assert team("vision").description == "theirs"


def test_a_row_that_is_gone_is_stale():
    gone = team("gone")
    Team.objects.all().delete()
    with pytest.raises(Stale):
        gone.change(description="x")


@pytest.mark.django_db(transaction=True)
def test_of_many_changes_to_one_state_at_the_same_moment_one_is_made(root):
    etag = root.get("teams/vision/")["ETag"]
    together = threading.Barrier(6)
    codes = []

    def change(n: int) -> None:
        try:
            together.wait(60)
            answer = Api(root.token).patch("teams/vision/", {"description": f"by {n}"}, If_Match=etag)
            codes.append(answer.status_code)
        finally:
            connection.close()

    threads = [threading.Thread(target=change, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(codes) == [200] + [412] * 5
    assert team("vision").revision == 2


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("deed", ["demote", "leave", "deactivate"])
def test_two_last_admins_who_remove_each_other_at_the_same_moment_leave_one(deed):
    first = person("first", superuser=True, vision="admin")
    second = person("second", superuser=True, vision="admin")
    together = threading.Barrier(2)
    answers = []
    requests = {
        "demote": lambda name: ("PUT", f"teams/vision/members/{name}/", {"role": "viewer"}),
        "leave": lambda name: ("DELETE", f"teams/vision/members/{name}/", None),
        "deactivate": lambda name: ("PATCH", f"people/{name}/", {"is_active": False}),
    }[deed]

    def remove(by: Api, name: str) -> None:
        try:
            together.wait(60)
            answers.append(by.call(*requests(name)).status_code)
        finally:
            connection.close()

    pairs = [(api(first), "second"), (api(second), "first")]
    threads = [threading.Thread(target=remove, args=pair) for pair in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    done = [code for code in answers if code < 300]
    # The loser finds that it would leave nobody, or that it has no right any more.
    assert len(done) == 1, answers
    assert set(answers) - set(done) <= {401, 403, 404, 409}
    if deed == "deactivate":
        assert type(first).objects.filter(is_superuser=True, is_active=True).count() == 1
    else:
        assert team("vision").memberships.filter(role="admin").count() == 1
