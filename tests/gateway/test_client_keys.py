"""Keys of clients at a real Envoy."""

from datetime import UTC, datetime, timedelta
from time import monotonic

import pytest

from common.fence import Fence
from gateway.client_access import NO_KEY, AllowedKey, ClientAccess, ClientCounts, key_hash, new_key_text
from gateway.routes import RouteSpec
from perf.envoy_stack import CANARY, STABLE, EnvoyStack
from tests.patience import eventually

pytestmark = [pytest.mark.process, pytest.mark.timeout(60)]
KEY, OTHER = new_key_text(), new_key_text()


def allowed(text: str = KEY, **limits: object) -> AllowedKey:
    given = {"id": "7", "services": frozenset({"chat"}), **limits}
    return AllowedKey(hash=key_hash(text), **given)  # type: ignore[arg-type]


@pytest.fixture
def guarded(stack: EnvoyStack) -> EnvoyStack:
    """`/chat` answers to keys alone, `/open` to everybody."""
    for target, name in ((STABLE, "chat"), (CANARY, "open")):
        stack.run_workers(target)
        stack.gateway.set_route(RouteSpec(name, target, None, 0), fence=Fence(1, 1))
        eventually(lambda target=target: bool(stack.gateway.ready(target.name)))
    return stack


def allow(stack: EnvoyStack, *keys: AllowedKey) -> None:
    access = ClientAccess(keys, demanded=frozenset({"chat"}))
    stack.gateway.set_access(access, observed_at=datetime.now(UTC))


def status(stack: EnvoyStack, path: str = "/chat/v1/models", text: str = KEY) -> int:
    return stack.get(path, **({"authorization": f"Bearer {text}"} if text else {})).status


def test_only_a_key_of_the_service_opens_it_until_it_is_revoked_or_ends(guarded: EnvoyStack) -> None:
    allow(guarded, allowed(), allowed(OTHER, id="8", services=frozenset({"open"})))

    assert status(guarded) == 200
    assert guarded.get("/chat/v1/models", x_slipway_key=KEY).status == 200
    assert status(guarded, text="") == 401
    assert status(guarded, text="slk_unknown") == 401
    assert status(guarded, text=OTHER) == 403
    assert status(guarded, "/open/v1/models", text="") == 200

    allow(guarded, allowed(ends_at=datetime.now(UTC) - timedelta(seconds=1)))
    assert status(guarded) == 401

    allow(guarded, allowed())
    assert status(guarded) == 200
    begun = monotonic()
    allow(guarded)
    assert status(guarded) == 401
    assert monotonic() - begun < 10


def test_a_late_observation_does_not_bring_a_revoked_key_back(guarded: EnvoyStack) -> None:
    before = datetime.now(UTC)
    allow(guarded)

    guarded.gateway.set_access(ClientAccess((allowed(),), frozenset({"chat"})), observed_at=before)

    assert status(guarded) == 401


def test_a_key_ends_at_its_requests_a_minute(guarded: EnvoyStack) -> None:
    allow(guarded, allowed(requests_per_minute=3), allowed(OTHER, id="8"))

    assert [status(guarded) for _ in range(4)] == [200, 200, 200, 429]
    assert status(guarded, text=OTHER) == 200


def test_a_key_ends_at_its_tokens_a_minute(guarded: EnvoyStack) -> None:
    allow(guarded, allowed(tokens_per_minute=100))
    path = "/chat/v1/tokens?prompt=20&completion=30"

    # The answer tells how many they were: they are charged with the next requests.
    answers = [status(guarded, path) for _ in range(12)]

    assert answers[:2] == [200, 200]
    assert 429 in answers


def test_requests_and_tokens_are_counted_by_key_and_version(guarded: EnvoyStack) -> None:
    allow(guarded, allowed(requests_per_minute=4))
    for query in ("", "&stream=1", "&stream=1&count=0"):
        assert status(guarded, f"/chat/v1/tokens?prompt=20&completion=30{query}") == 200
    assert status(guarded, "/chat/v1/status/500") == 500
    assert status(guarded) == 429
    assert status(guarded, "/open/v1/tokens?prompt=1&completion=2", text="") == 200
    expected = {
        (STABLE.name, "7"): ClientCounts(4, 1, 1, 20 + 20 + 0, 30 + 30 + 30),
        (CANARY.name, NO_KEY): ClientCounts(1, 0, 0, 1, 2),
    }

    def counted() -> dict[tuple[str, str], ClientCounts]:
        found = guarded.metrics.clients().counts
        return {of: counts for of, counts in found.items() if of in expected}

    eventually(lambda: counted() == expected)
    # What was refused is no answer of a version, and none that is awaited.
    seen = guarded.metrics.counts("chat")[STABLE.name]
    assert (seen.requests, seen.in_flight) == (4, 0)
