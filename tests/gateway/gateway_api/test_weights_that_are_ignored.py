"""A gateway that accepts weights and ignores them says that all is well; what requests did says otherwise."""

from dataclasses import replace

import pytest

from common.fence import Fence
from releases.split import interval_percent
from tests.gateway.gateway_api.test_backend import CANARY, OPEN, with_services
from tests.gateway.gateway_api.worlds import Cluster, DataPlane

REQUESTS = 400


@pytest.mark.parametrize("ignores", [False, True])
@pytest.mark.parametrize("percent", [5, 25])
def test_the_split_that_is_seen_lies_outside_what_chance_allows(ignores: bool, percent: int) -> None:
    cluster = with_services(Cluster())
    cluster.gateway.set_route(replace(OPEN, candidate_percent=percent), fence=Fence(1, 1))
    plane = DataPlane(cluster.controller)
    plane.ignores_weights = ignores
    found = [plane.ask("/chat/v1", {}) for _ in range(REQUESTS)]
    share = 100 * sum(one is not None and one[0] == CANARY.name for one in found) / REQUESTS
    low, high = interval_percent(REQUESTS, percent)
    assert (low <= share <= high) != ignores
    assert cluster.gateway.health().ok


def test_whoever_ignores_weights_still_sends_nothing_to_a_side_without_a_share() -> None:
    cluster = with_services(Cluster())
    plane = DataPlane(cluster.controller)
    plane.ignores_weights = True
    for turn, percent in enumerate((0, 100), start=1):
        cluster.gateway.set_route(replace(OPEN, candidate_percent=percent), fence=Fence(1, turn))
        found = {one[0] for _ in range(50) if (one := plane.ask("/chat/v1", {})) is not None}
        assert found == {OPEN.stable.name if percent == 0 else CANARY.name}
