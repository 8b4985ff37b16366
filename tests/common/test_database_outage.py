"""While PostgreSQL is away: said once, tried once a second, forgotten when it is back."""

import logging
import os
from collections.abc import Iterator

import psycopg
import pytest
from django.db import OperationalError

from common.database import outage as room
from common.database.base import DatabaseWrapper
from common.database.outage import LeftOutDuringOutage, Outage, OutageAwareConnection

NOBODY = {"host": "127.0.0.1", "port": 1, "connect_timeout": 2}


@pytest.fixture
def outage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Outage]:
    fresh = Outage()
    monkeypatch.setattr(room, "outage", fresh)
    return fresh


def record(error: BaseException | None = None, **more: object) -> logging.LogRecord:
    made = logging.LogRecord("some.room", logging.ERROR, "file", 1, "it failed", (), None)
    made.exc_info = (type(error), error, None) if error else None
    vars(made).update(more)
    return made


def test_a_server_that_refuses_is_an_outage_that_is_logged_once(
    outage: Outage, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        with pytest.raises(psycopg.OperationalError):
            OutageAwareConnection.connect(**NOBODY)
    assert outage.is_on
    assert len(caplog.records) == 1
    outage.ends()
    outage.ends()
    assert not outage.is_on
    assert len(caplog.records) == 2


def test_one_caller_in_a_second_looks_whether_it_is_back(
    outage: Outage, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(room.time, "monotonic", lambda: now)
    outage.begins(OSError("refused"))
    assert not outage.may_try()
    now += 1.1
    assert [outage.may_try() for _ in range(3)] == [True, False, False]


def test_what_only_repeats_the_outage_is_left_out_and_the_rest_is_not(outage: Outage) -> None:
    passes = LeftOutDuringOutage().filter
    of_database = record(OperationalError("refused"))
    assert passes(of_database)
    outage.begins(OSError("refused"))
    assert not passes(of_database)
    assert not passes(record(status_code=503))
    caused = RuntimeError("a page failed")
    caused.__cause__ = OperationalError("refused")
    assert not passes(record(caused))
    assert passes(record(ValueError("a mistake of ours")))
    assert passes(record(status_code=500))


def test_a_wrong_password_is_an_answer_and_no_outage(outage: Outage) -> None:
    assert room._is_refusal_of_a_server(psycopg.errors.InvalidPassword())
    assert not room._is_refusal_of_a_server(psycopg.errors.AdminShutdown())
    assert not outage.is_on


def test_a_forked_process_leaves_its_parent_s_pool_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DatabaseWrapper, "_connection_pools", {"default": object()})
    child = os.fork()
    if not child:
        os._exit(len(DatabaseWrapper._connection_pools))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(DatabaseWrapper._connection_pools) == 1
