from collections.abc import Iterator
from typing import Any

import pytest

from accounts.models import WebhookEndpoint
from accounts.services.webhooks import create_webhook
from common.webhooks import catalogue
from common.webhooks.catalogue import EventPayload, WebhookEventType, installation
from tests.cast import SYSTEM, team
from tests.webhooks.receiver import Receiver, receiving


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as one:
        yield one


@pytest.fixture
def _here(settings) -> None:
    """The installation lets webhooks go to this machine."""
    settings.SLIPWAY_WEBHOOK_ALLOWED_HOSTS = ("127.0.0.1",)


@pytest.fixture
def parcels(monkeypatch) -> None:
    """Two types of events: `parcel.posted` of the team `post`, `parcel.lost` of nobody's."""
    types = dict(catalogue.known())
    monkeypatch.setattr(catalogue, "_known", types)
    monkeypatch.setattr(catalogue, "_headings", dict(catalogue._headings))

    def posted(ids: Any) -> EventPayload:
        return EventPayload(team("post").pk, {**ids, "parcel": {"weight": 2}})

    catalogue.offer(WebhookEventType("parcel.posted", "It is on its way.", posted), "Parcels")
    catalogue.offer(WebhookEventType("parcel.lost", "Nobody knows.", installation), "Parcels")
    catalogue.offer(WebhookEventType("parcel.forgotten", "It was deleted.", lambda ids: None), "Parcels")


@pytest.fixture
def endpoint(db, _here, parcels, receiver) -> WebhookEndpoint:
    """An endpoint of team `post`, wanting everything, with its secret as an attribute."""
    issued = create_webhook(actor=SYSTEM, url=receiver.url, team=team("post"))
    issued.endpoint.secret = issued.secret
    return issued.endpoint
