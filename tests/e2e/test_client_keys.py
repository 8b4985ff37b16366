"""A client's key on its whole way: REST, the row of the gateway, sweeper or worker, Envoy."""

import time
from collections.abc import Callable, Iterator

import httpx2
import pytest

from slipway.client import at
from tests.e2e.conftest import MODEL, SERVICE, Scene

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]
WITHIN_SECONDS = 10.0


@pytest.fixture
def demanding(scene: Scene) -> Iterator[Callable[[str], int]]:
    """A service that answers to keys alone: the status of a request with a key."""
    address = at("services", SERVICE, "client-access")
    body = {"model": MODEL, "prompt": "hello", "max_tokens": 1}

    def status(key: str) -> int:
        headers = {"Authorization": f"Bearer {key}"}
        url = f"{scene.gateway}/{SERVICE}/v1/completions"
        return httpx2.post(url, json=body, headers=headers, timeout=20).status_code

    scene.admin.put(address, {"requires_key": True, "reason": "a test"})
    try:
        until(lambda: status("slk_unknown") == 401)
        yield status
    finally:
        scene.admin.put(address, {"requires_key": False, "reason": "the test is over"})
        until(lambda: scene.ask().status_code == 200)


def until(holds: Callable[[], bool]) -> float:
    """Return the seconds after which it holds, which are few."""
    began = time.monotonic()
    while not holds():
        assert time.monotonic() - began < WITHIN_SECONDS
        time.sleep(0.05)
    return time.monotonic() - began


def test_a_key_opens_the_service_within_seconds_and_no_longer_once_it_is_revoked(
    scene: Scene, demanding: Callable[[str], int]
) -> None:
    key = scene.admin.post(at("client-keys"), {"name": "app", "team": "default", "services": [SERVICE]})
    until(lambda: demanding(key["key"]) == 200)

    scene.admin.delete(at("client-keys", key["id"]), reason="lost")

    until(lambda: demanding(key["key"]) == 401)
