"""The judge takes requests for independent: the gateway must deal out each one by itself."""

import http.client
from itertools import pairwise
from pathlib import Path

import pytest

from common.fence import Fence
from gateway.routes import RouteSpec
from perf.envoy_stack import CANARY, STABLE, EnvoyStack
from releases.split import interval_percent

pytestmark = pytest.mark.stack

REQUESTS = 600
SESSION = {
    "cookie": "session=1; x-release=canary",
    "x-request-id": "4b7a1c9e-0000-4000-8000-000000000000",
    "x-session-id": "1",
    "x-forwarded-for": "203.0.113.7",
    "authorization": "Bearer one",
}


def test_requests_of_one_session_are_dealt_out_one_by_one(stack: EnvoyStack, tmp_path: Path) -> None:
    for target in (STABLE, CANARY):
        stack.run_workers(target)
    stack.gateway.set_route(RouteSpec("chat", STABLE, CANARY, 50), fence=Fence(1, 1))
    connection = http.client.HTTPConnection("127.0.0.1", stack.layout.port, timeout=60)
    sides = []
    for _ in range(REQUESTS):
        connection.request("GET", "/chat/v1/models", headers=SESSION)
        answer = connection.getresponse()
        answer.read()
        sides.append(answer.headers["x-slipway-version"] == CANARY.version)
    connection.close()

    low, high = interval_percent(REQUESTS, 50)
    assert low <= 100 * sum(sides) / REQUESTS <= high
    # And whoever got one side is as likely to get the other next.
    low, high = interval_percent(REQUESTS - 1, 50)
    assert low <= 100 * sum(one != other for one, other in pairwise(sides)) / (REQUESTS - 1) <= high
