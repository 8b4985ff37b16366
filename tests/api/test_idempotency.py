"""`Idempotency-Key`: once, the same answer again, and no half-done creation whatever happens in between."""

import threading
from datetime import timedelta

import pytest
from django.db import close_old_connections, connection
from django.utils import timezone

from accounts.models import Team, User
from accounts.services import teams
from common.api import idempotency
from common.errors import Conflict
from common.models import AuditRecord, IdempotentAnswer
from tests.cast import Api, api, person, token_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def root() -> Api:
    return api(person("root", superuser=True))


def test_the_same_key_and_body_get_the_same_answer_and_one_thing(root):
    first = root.post("teams/", {"name": "vision", "description": "x"}, Idempotency_Key="k1")
    # The order of the members does not make another body.
    second = root.post("teams/", {"description": "x", "name": "vision"}, Idempotency_Key="k1")
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.content == second.content
    for header in ("ETag", "Location", "Content-Type"):
        assert first[header] == second[header]
    assert second["Idempotency-Replayed"] == "true"
    assert "Idempotency-Replayed" not in first
    assert Team.objects.count() == 1
    assert AuditRecord.objects.filter(action="team.create").count() == 1


def test_without_a_key_nothing_is_stored(root):
    root.post("teams/", {"name": "vision"})
    assert not IdempotentAnswer.objects.exists()


def test_the_same_key_with_another_body_is_a_409(root):
    root.post("teams/", {"name": "vision"}, Idempotency_Key="k1")
    other = root.post("teams/", {"name": "speech"}, Idempotency_Key="k1")
    assert other.status_code == 409
    assert other.json()["type"] == "urn:slipway:problem:idempotency-key-reused"
    assert not Team.objects.filter(name="speech").exists()


def test_a_key_belongs_to_its_path_and_to_who_sent_it(root):
    root.post("teams/", {"name": "vision"}, Idempotency_Key="k1")
    assert (
        root.post("tokens/", {"name": "vision", "scopes": ["read"]}, Idempotency_Key="k1").status_code == 201
    )
    other = Api(token_of(User.objects.get(username="root")))
    assert other.post("teams/", {"name": "vision"}, Idempotency_Key="k1").status_code == 400


def test_a_refusal_is_not_kept_so_that_the_key_can_be_tried_again(root):
    assert root.post("teams/", {"name": "No Such"}, Idempotency_Key="k1").status_code == 400
    assert not IdempotentAnswer.objects.exists()
    assert root.post("teams/", {"name": "vision"}, Idempotency_Key="k1").status_code == 201


@pytest.mark.parametrize("key", ["", " ", "a b", "x" * 256, "é", "a\tb"])
def test_a_key_that_is_none_is_refused(root, key):
    answer = root.post("teams/", {"name": "vision"}, Idempotency_Key=key)
    assert answer.status_code == 400
    assert "Idempotency-Key" in answer.json()["errors"]


def test_a_key_counts_on_every_post(root):
    person("ada")
    body = {"password": "a new good phrase"}
    for _ in range(2):
        answer = root.post("people/ada/password/", body, Idempotency_Key="k1")
        assert (answer.status_code, answer.content) == (204, b"")
    assert AuditRecord.objects.filter(action="user.set_password").count() == 1


def test_an_answer_with_a_secret_is_not_stored_and_not_repeated(root):
    first = root.post("tokens/", {"name": "ci", "scopes": ["read"]}, Idempotency_Key="k1")
    second = root.post("tokens/", {"name": "ci", "scopes": ["read"]}, Idempotency_Key="k1")
    assert second.status_code == 409
    assert second.json()["type"] == "urn:slipway:problem:idempotency-secret"
    assert first["Location"] in second.json()["detail"]
    assert IdempotentAnswer.objects.get().body == ""


def test_while_the_first_is_at_work_the_second_is_told_to_come_back(root):
    IdempotentAnswer.objects.create(**claim_of(root, lease=timedelta(seconds=30)))
    answer = root.post("teams/", {"name": "vision"}, Idempotency_Key="k1")
    assert answer.status_code == 409
    assert answer.json()["type"] == "urn:slipway:problem:idempotency-in-flight"
    assert answer["Retry-After"] == "1"
    assert not Team.objects.exists()


def test_a_claim_whose_holder_died_is_taken_over_after_its_lease(root):
    IdempotentAnswer.objects.create(**claim_of(root, lease=timedelta(seconds=-1)))
    assert root.post("teams/", {"name": "vision"}, Idempotency_Key="k1").status_code == 201
    replayed = root.post("teams/", {"name": "vision"}, Idempotency_Key="k1")
    assert replayed["Idempotency-Replayed"] == "true"


def claim_of(root: Api, *, lease: timedelta) -> dict:
    return {
        "actor": f"token {User.objects.get(username='root').tokens.get().pk}",
        "path": "/api/v1/teams/",
        "key": "k1",
        "body_hash": idempotency._digest({"name": "vision"}),
        "claim": "someone",
        "lease_until": timezone.now() + lease,
        "created_at": timezone.now(),
    }


def test_answers_are_given_again_for_as_many_days_as_is_set(root, settings):
    root.post("teams/", {"name": "vision"}, Idempotency_Key="k1")
    IdempotentAnswer.objects.update(created_at=timezone.now() - timedelta(hours=23))
    assert root.post("teams/", {"name": "vision"}, Idempotency_Key="k1").status_code == 201
    IdempotentAnswer.objects.update(created_at=timezone.now() - timedelta(hours=25))
    settings.SLIPWAY_KEEP_ANSWERS_DAYS = 2
    assert root.post("teams/", {"name": "vision"}, Idempotency_Key="k1")["Idempotency-Replayed"] == "true"
    settings.SLIPWAY_KEEP_ANSWERS_DAYS = 1
    assert root.post("teams/", {"name": "speech"}, Idempotency_Key="k1").status_code == 201
    assert IdempotentAnswer.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_crash_between_the_work_and_its_answer_leaves_neither(root, monkeypatch):
    class Killed(BaseException):
        pass

    def die(*_):
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(idempotency, "_keep", die)
        # A killed process lets nothing go either.
        patched.setattr(idempotency, "_let_go", lambda claim: None)
        with pytest.raises(Killed):
            root.post("teams/", {"name": "vision"}, Idempotency_Key="k1")
    assert not Team.objects.exists()
    assert not AuditRecord.objects.exists()
    assert root.post("teams/", {"name": "vision"}, Idempotency_Key="k1").status_code == 409
    IdempotentAnswer.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    assert root.post("teams/", {"name": "vision"}, Idempotency_Key="k1").status_code == 201
    assert Team.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_process_that_slept_past_its_lease_undoes_its_work(root, monkeypatch):
    real = teams.create_team

    def slow(**fields):
        made = real(**fields)
        # Meanwhile the lease ran out, and another process took the claim.
        IdempotentAnswer.objects.update(claim="another")
        return made

    monkeypatch.setattr(teams, "create_team", slow)
    answer = root.post("teams/", {"name": "vision"}, Idempotency_Key="k1")
    assert answer.status_code == 409
    assert not Team.objects.exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("round_", range(3))
def test_duplicates_at_the_same_moment_make_one_thing(root, round_):
    together = threading.Barrier(6)
    answers = []

    def send() -> None:
        try:
            together.wait(60)
            for _ in range(100):
                answer = Api(root.token).post("teams/", {"name": "vision"}, Idempotency_Key="k1")
                if answer.status_code != 409:
                    break
            answers.append(answer)
        finally:
            connection.close()

    threads = [threading.Thread(target=send) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    close_old_connections()
    assert [answer.status_code for answer in answers] == [201] * 6
    assert len({answer.content for answer in answers}) == 1
    assert sum("Idempotency-Replayed" in answer for answer in answers) == 5
    assert Team.objects.count() == 1
    assert AuditRecord.objects.filter(action="team.create").count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_domain_error_in_the_work_frees_the_key(root, monkeypatch):
    def refuse(**_):
        raise Conflict("Not now.")

    with monkeypatch.context() as patched:
        patched.setattr(teams, "create_team", refuse)
        assert root.post("teams/", {"name": "vision"}, Idempotency_Key="k1").json()["detail"] == "Not now."
    assert root.post("teams/", {"name": "vision"}, Idempotency_Key="k1").status_code == 201
