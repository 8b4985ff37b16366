"""`/metrics` as Prometheus asks for it: each process by its address, with a token."""

from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client, RequestFactory

from accounts import bearer
from controlplane.scraping import REMEMBERED_SECONDS, ScrapeGuard
from tests.cast import person, token_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("parts")]


@pytest.fixture(autouse=True)
def in_production(settings: Any) -> None:
    settings.SLIPWAY_METRICS = "token"
    settings.ALLOWED_HOSTS = ["slipway.example.org"]
    settings.SECURE_SSL_REDIRECT = True


def test_it_is_asked_by_address_and_without_tls_as_probes_are() -> None:
    client = Client(headers={"host": "10.1.2.3:8000"})
    refused = client.get("/metrics")
    assert (refused.status_code, "WWW-Authenticate" in refused.headers) == (401, True)
    token = token_of(person("ada"))
    told = client.get("/metrics", headers={"authorization": f"Bearer {token}"})
    assert told.status_code == 200
    assert "slipway_part_up" in told.content.decode()
    assert client.get("/api/v1/models/", headers={"authorization": f"Bearer {token}"}).status_code == 400


def test_while_the_database_is_away_only_a_token_that_was_let_in_lately_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]
    door = ScrapeGuard(clock=lambda: now[0])
    tokens = {name: token_of(person(name)) for name in ("ada", "grace")}

    def asked(name: str) -> int:
        request = RequestFactory().get("/metrics", headers={"authorization": f"Bearer {tokens[name]}"})
        refused = door.refusal(request)
        return refused.status if refused else 200

    def away(text: str) -> None:
        raise OperationalError("connection refused")

    assert asked("ada") == 200
    with monkeypatch.context() as patched:
        patched.setattr(bearer, "use_token", away)
        assert (asked("ada"), asked("grace")) == (200, 503)
        now[0] = REMEMBERED_SECONDS
        assert asked("ada") == 503
    assert asked("grace") == 200


def test_a_token_that_stopped_working_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    door = ScrapeGuard()
    ada = person("ada")
    request = RequestFactory().get("/metrics", headers={"authorization": f"Bearer {token_of(ada)}"})
    assert door.refusal(request) is None
    ada.is_active = False
    ada.save()
    refused = door.refusal(request)
    assert refused is not None
    assert refused.status == 401

    def away(text: str) -> None:
        raise OperationalError("connection refused")

    monkeypatch.setattr(bearer, "use_token", away)
    refused = door.refusal(request)
    assert refused is not None
    assert refused.status == 503
