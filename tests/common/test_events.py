"""Events are told after the commit, to everybody, whoever fails."""

from dataclasses import dataclass

import pytest
from django.db import transaction

from common.events import publish, subscribe, witness

pytestmark = pytest.mark.django_db(transaction=True)


@dataclass(frozen=True)
class ParcelPosted:
    parcel_id: int


@pytest.fixture
def heard() -> list[ParcelPosted]:
    heard: list[ParcelPosted] = []
    subscribe(ParcelPosted, heard.append)
    return heard


def test_an_event_is_told_after_the_commit(heard: list[ParcelPosted]) -> None:
    with transaction.atomic():
        publish(ParcelPosted(1))
        assert heard == []
    assert heard == [ParcelPosted(1)]


def test_a_rolled_back_deed_tells_nobody(heard: list[ParcelPosted]) -> None:
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        publish(ParcelPosted(1))
        raise ZeroDivisionError
    assert heard == []


def test_a_failing_subscriber_hides_nothing_from_the_others() -> None:
    heard: list[ParcelPosted] = []

    def fail(event: ParcelPosted) -> None:
        raise RuntimeError("not today")

    def hear(event: ParcelPosted) -> None:
        heard.append(event)

    subscribe(ParcelPosted, fail)
    subscribe(ParcelPosted, hear)
    publish(ParcelPosted(2))
    assert heard == [ParcelPosted(2)]


def test_a_witness_writes_inside_the_transaction_and_its_failure_is_the_deeds(
    heard: list[ParcelPosted],
) -> None:
    seen: list[ParcelPosted] = []

    def look(event: ParcelPosted) -> None:
        seen.append(event)
        if event.parcel_id == 13:
            raise ZeroDivisionError

    witness(ParcelPosted, look)
    with transaction.atomic():
        publish(ParcelPosted(1))
        assert (seen, heard) == ([ParcelPosted(1)], [])
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        publish(ParcelPosted(13))
    assert heard == [ParcelPosted(1)]
