"""Pages of what seldom changes hear that something was done there."""

import pytest
from django.db import transaction

from accounts import actors
from common import audit
from common.actor import Actor
from common.errors import Missing
from common.live.board import PUBLIC
from controlplane import changes
from controlplane.changes import ChangesTopic
from tests.cast import client_of, person, team

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def touched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setattr(changes, "touch", lambda kind, key: found.append(f"{kind}:{key}"))
    return found


def test_what_is_recorded_of_an_app_reaches_its_pages_and_the_audit_log(touched: list[str]) -> None:
    with transaction.atomic():
        audit.record(Actor.system("test"), "team.change", subject=team("vision"))
    assert touched == ["changes:audit", "changes:settings"]


def test_a_deed_that_is_rolled_back_reaches_nobody(touched: list[str]) -> None:
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        audit.record(Actor.system("test"), "team.change", subject="nothing")
        raise ZeroDivisionError
    assert touched == []


def test_the_pages_follow_a_part_that_there_is() -> None:
    ada = person("ada", vision="admin")
    for path, part in (
        ("/models/", "models"),
        ("/images/", "images"),
        ("/audit/", "audit"),
        ("/settings/teams/", "settings"),
    ):
        assert f'data-live-topic="changes:{part}"' in client_of(ada).get(path).content.decode()
        assert ChangesTopic().audience(actors.of_user(ada), part) == {PUBLIC}
    with pytest.raises(Missing):
        ChangesTopic().audience(actors.of_user(ada), "elsewhere")
