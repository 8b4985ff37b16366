"""A full disk: every door says so, what helps goes on, and nothing is blamed on anything else."""

from collections.abc import Callable
from pathlib import Path

import pytest
from django.db import OperationalError
from django.test import Client

from accounts.actors import of_user
from common import disk
from common.disk import MIB, DiskSpace
from common.disk_watch import DiskWatch
from common.models import DiskCondition
from controlplane.home.inbox import inbox
from tests.cast import PASSWORD, Api, client_of, person, token_of

pytestmark = pytest.mark.django_db
PART = {"HX-Request": "true", "HX-Target": "x"}


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    def of(mib: int) -> None:
        room = DiskSpace(Path("/srv/slipway"), 10_000 * MIB, mib * MIB, reserve=100 * MIB, warn_percent=10)
        monkeypatch.setattr(disk, "room", lambda: room)

    return of


def test_what_is_new_is_refused_in_words_at_every_door(left) -> None:
    admin = person("root", superuser=True, vision="admin")
    left(0)
    told = Api(token_of(admin)).post("models/", {"name": "tiny", "team": "vision"})
    assert (told.status_code, told.json()["type"]) == (507, "urn:slipway:problem:disk-full")
    assert "Free space there" in told.json()["detail"]
    assert (
        "disk of /srv/slipway is full"
        in client_of(admin).post("/models/+new/", {"name": "x"}).content.decode()
    )
    part = client_of(admin).post("/models/+new/", {"name": "x"}, headers=PART)
    assert (part.status_code, part["HX-Slipway-Refused"]) == (507, "1")


def test_what_keeps_traffic_safe_or_makes_room_goes_on(left) -> None:
    admin = person("root", superuser=True, vision="admin")
    left(0)
    assert Client().post("/accounts/login/", {"login": "root", "password": PASSWORD}).status_code == 302
    api = Api(token_of(admin))
    assert api.post("releases/4711/abort/", {"reason": "x"}).status_code == 404
    assert api.delete("models/none/").status_code == 404


def test_every_page_warns_before_and_says_when_it_is_full(left) -> None:
    admin = person("root", superuser=True)
    pages = client_of(admin)
    for mib, words, badge in ((900, "is almost full", "Disk low"), (10, "is full", "Disk full")):
        left(mib)
        for path in ("/models/", "/settings/account/"):
            assert words in pages.get(path).content.decode()
        DiskWatch().look()
        (task,) = inbox(of_user(admin))
        assert (task.title, task.since) == ("/srv/slipway", DiskCondition.objects.get().since)
        home = pages.get("/", headers=PART | {"HX-Target": "inbox"}).content.decode()
        assert f"<span>{badge}</span>" in home
        assert "Stuck" not in home
    left(9_000)
    assert "data-disk" not in pages.get("/models/").content.decode()


def test_it_is_not_ready_while_the_disk_is_full(left) -> None:
    left(0)
    told = Client().get("/readyz")
    assert told.status_code == 503
    assert not told.json()["parts"]["disk"]["ok"]
    left(900)
    assert Client().get("/readyz").json()["parts"]["disk"]["ok"]


def test_a_failure_of_the_database_on_a_full_disk_is_the_disk_s(
    left, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OperationalError("database or disk is full")

    ada = person("ada", vision="viewer")
    api = Api(token_of(ada))
    monkeypatch.setattr("models_registry.selectors.catalogue.models", fail)
    left(0)
    assert api.get("models/").status_code == 507
    left(9_000)
    assert api.get("models/").status_code == 503
