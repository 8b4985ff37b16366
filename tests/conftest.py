"""Fixtures that several parts share."""

from collections.abc import Iterator

import pytest

from tests.valkey import ValkeyServer


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
