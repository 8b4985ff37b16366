"""What REST answers is JSON whatever the numbers in it."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from common.api.etags import etag_of
from common.api.json import dumps
from tests import cast

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


@dataclass
class Counted:
    count: int


@pytest.mark.parametrize("number", [2**64, -(2**63) - 1, 10**20, -(10**308), 2**63, -(2**63), 2**64 - 1])
def test_an_integer_of_any_size_is_written_with_all_its_digits(number: int) -> None:
    assert json.loads(dumps({"config": [{"count": number}]})) == {"config": [{"count": number}]}


def test_what_stands_beside_a_large_integer_is_written_as_ever() -> None:
    beside = {"at": NOON, "text": "é", "none": None, "yes": True, "items": (1, 2.5), 7: Counted(3)}
    shown = json.loads(dumps(beside | {"large": 10**20, "counted": Counted(10**20), 10**21: 1}))
    assert shown == json.loads(dumps(beside)) | {
        "large": 10**20,
        "counted": {"count": 10**20},
        str(10**21): 1,
    }


def test_an_integer_of_more_digits_than_python_prints_is_written() -> None:
    assert dumps([10**5000]) == b"[1" + b"0" * 5000 + b"]"


@pytest.mark.django_db
def test_a_thing_with_a_large_integer_has_an_etag() -> None:
    assert etag_of(cast.team("vision"), {"count": 10**20}) != etag_of(
        cast.team("vision"), {"count": 10**20 + 1}
    )
