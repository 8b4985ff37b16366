"""Fixtures that several parts share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.valkey import ValkeyServer

if TYPE_CHECKING:
    from gateway.backends.fake import FakeGateway


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


@pytest.fixture
def gateway() -> Iterator[FakeGateway]:
    """The fake gateway that the services under test talk to, fresh."""
    from gateway.backends import backend
    from gateway.backends.fake import FakeGateway

    backend.cache_clear()
    fresh = backend()
    assert isinstance(fresh, FakeGateway)
    yield fresh
    backend.cache_clear()
