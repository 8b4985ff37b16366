"""Fixtures that several parts share."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from django.contrib.contenttypes.management import create_contenttypes
from django.db import connection
from django.db.models.signals import post_migrate

from tests.valkey import ValkeyServer

if TYPE_CHECKING:
    from gateway.backends.fake import FakeGateway
    from tests.model_store.s3_server import S3Server


def pytest_configure() -> None:
    """The catalogues, as a preparation leaves them: Django reads each once in a process."""
    from pathlib import Path

    from django.conf import settings

    from common.languages import compile_catalogues

    compile_catalogues(Path(*settings.LOCALE_PATHS))


@pytest.fixture(autouse=True)
def log_handlers() -> Iterator[None]:
    """A handler that a test adds may write to the captured stream of that test, which is closed after it."""
    before = logging.root.handlers[:]
    yield
    logging.root.handlers[:] = before


@pytest.fixture(autouse=True)
def subscriptions() -> Iterator[None]:
    """Whoever subscribes in a test is forgotten after it."""
    from common import events

    kept = [
        (one, {kind: list(told) for kind, told in one.items()})
        for one in (events._subscribers, events._witnesses)
    ]
    yield
    for one, before in kept:
        one.clear()
        one.update(before)


def emptying(style: object, tables: list[str], **how: bool) -> list[str]:
    """Return statements that empty those of the tables that have rows."""
    names = [connection.ops.quote_name(table) for table in tables]
    asked = (f"SELECT {number} WHERE EXISTS (SELECT 1 FROM {name})" for number, name in enumerate(names))
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(asked))
        return [f"DELETE FROM {names[number]}" for (number,) in cursor.fetchall()]


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None) -> None:
    """Extend Django's own fixture: a flush empties those tables alone that have rows, as all of them take
    PostgreSQL a quarter of a second, and does not bring back the rows that describe models, which nothing
    here reads.
    """
    connection.ops.sql_flush = emptying
    post_migrate.disconnect(dispatch_uid="django.contrib.auth.management.create_permissions")
    post_migrate.disconnect(create_contenttypes)


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[ValkeyServer]:
    server = ValkeyServer()
    server.start()
    yield server
    server.remove()


@pytest.fixture
def valkey(valkey_server: ValkeyServer, settings) -> Iterator[ValkeyServer]:
    """A running, empty Valkey that the settings point at; a test may stop and start it."""
    from common.live.redis import breaker

    settings.REDIS_URL = valkey_server.url
    valkey_server.empty()
    breaker.reset()
    yield valkey_server
    if not valkey_server.is_running:
        valkey_server.start()


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """An S3 server, and credentials for it where boto3 looks for them."""
    from tests.model_store.s3_server import KEYS, s3_server

    with pytest.MonkeyPatch.context() as patch, s3_server() as server:
        patch.setenv("AWS_ACCESS_KEY_ID", KEYS["aws_access_key_id"])
        patch.setenv("AWS_SECRET_ACCESS_KEY", KEYS["aws_secret_access_key"])
        patch.setenv("AWS_DEFAULT_REGION", KEYS["region_name"])
        yield server


@pytest.fixture
def gateway(db: None) -> FakeGateway:
    """The fake gateway of the cluster `local` that the services under test talk to, fresh."""
    from tests.gateway.cast import fake_gateway

    return fake_gateway()
