"""Tokens that do not work, one after the other."""

import pytest

from accounts.failed_tokens import MOST
from accounts.states import Role
from tests.cast import Api, person, token_of
from tests.valkey import ValkeyServer

pytestmark = pytest.mark.django_db
WRONG = "slp_0123456789_" + "x" * 32


def test_who_tries_token_after_token_is_slowed_down_and_neighbours_are_not(valkey: ValkeyServer) -> None:
    assert valkey.is_running
    answers = [Api(WRONG).get("me/") for _ in range(MOST)]
    # Failures are counted by the minute, of which one may end meanwhile.
    while answers[-1].status_code == 401 and len(answers) <= 2 * MOST:
        answers.append(Api(WRONG).get("me/"))
    assert {answer.status_code for answer in answers[:-1]} == {401}
    assert answers[-1].status_code == 429
    assert 1 <= int(answers[-1]["Retry-After"]) <= 60
    assert "tokens from this address" in answers[-1].json()["detail"]
    assert Api(token_of(person("ada", ours=Role.VIEWER))).get("me/").status_code == 200


def test_another_address_has_failures_of_its_own(valkey: ValkeyServer) -> None:
    assert valkey.is_running
    for _ in range(MOST + 1):
        Api(WRONG).get("me/")
    elsewhere = Api(WRONG)
    elsewhere.client.defaults["REMOTE_ADDR"] = "10.9.9.9"
    assert elsewhere.get("me/").status_code == 401


def test_while_redis_is_away_a_wrong_token_is_just_wrong(valkey: ValkeyServer) -> None:
    valkey.stop()
    assert Api(WRONG).get("me/").status_code == 401
