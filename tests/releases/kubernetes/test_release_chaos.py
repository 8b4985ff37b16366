"""Whatever goes wrong between the control plane and a cluster during a release, and however that ends: the
route and the workers are what the rows say, nothing is left over, and what others have is as it was.

The API server restarts, forgets, refuses, is slow or loses answers; workers of the control plane die or fall
asleep between two calls.
"""

import random
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as profile
from hypothesis import strategies as st

from tests.releases.kubernetes.endings import ENDINGS, begin, check, settle
from tests.releases.kubernetes.strikes import EVERY, WRITES_FAIL, Strike
from tests.releases.kubernetes.world import KubernetesScene, a_scene
from tests.releases.world import undone

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(3000), pytest.mark.any_database]

NOTHING: Mapping[int, Strike] = {}


@pytest.fixture(autouse=True)
def _kubernetes(settings: Any) -> None:
    settings.SLIPWAY_CLUSTER_BACKENDS = {"kubernetes": "tests.releases.kubernetes.world"}


def tell(
    ending: str,
    strikes: list[tuple[int, Strike]] | None = None,
    *,
    at_write: Mapping[int, Strike] = NOTHING,
    late_by: int = 30,
    **how: bool,
) -> KubernetesScene:
    """A release until all is at rest. `strikes`: each after so many calls; `at_write`: by number of the write
    since the release began; `late_by`: so many others come before what is late; `how`: of KubernetesScene."""
    with undone(), a_scene(**how) as scene:
        begin(scene, ending)
        scene.strikes.writes = 0
        scene.strikes.plan(strikes or ())
        scene.strikes.at_write |= at_write
        scene.chaos.late_by = late_by
        scene.live_to_the_end = partial(ENDINGS[ending][0], scene)
        scene.live_to_the_end()
        state, before_rest = scene.state(), scene.strikes.writes
        settle(scene)
        check(scene)
        if not scene.strikes.struck:
            assert state == ENDINGS[ending][1]
        scene.strikes.writes = before_rest
        return scene


def some_strikes(chance: random.Random) -> list[tuple[int, Strike]]:
    """About one call in ten, and now and then several in a row."""
    return [(chance.choice([0, 0, 2, 5, 10, 25]), chance.choice(EVERY)) for _ in range(chance.randint(8, 20))]


@pytest.mark.parametrize("ending", ["aborted", "judged", "name taken", "taken back"])
def test_however_a_release_ends_amid_mishaps_the_cluster_is_what_the_rows_say(ending: str) -> None:
    """A release that is taken back was promoted before; the slow tests have the other endings."""
    shape = {"judged": {"is_theirs": True}, "aborted": {"in_groups": True}}
    strikes = some_strikes(random.Random(f"a seed for {ending}"))
    assert tell(ending, strikes, **shape.get(ending, {})).strikes.struck


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["", "is_theirs", "in_groups"])
@pytest.mark.parametrize("ending", ENDINGS)
def test_it_is_so_whatever_comes_together(ending: str, shape: str) -> None:
    @profile(
        suppress_health_check=list(HealthCheck),
        deadline=None,
        max_examples=6,
        report_multiple_bugs=False,
        print_blob=True,
    )
    @given(st.lists(st.tuples(st.integers(0, 40), st.sampled_from(EVERY)), max_size=24))
    def story(strikes: list[tuple[int, Strike]]) -> None:
        tell(ending, strikes, **({shape: True} if shape else {}))

    story()


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["aborted", "taken back"])
@pytest.mark.parametrize("strike", WRITES_FAIL, ids=str)
def test_each_write_may_go_wrong(strike: Strike, ending: str) -> None:
    """Each write of a release to the cluster has its turn, from the prefetch on."""
    number = 0
    while True:
        number += 1
        # What is late comes when all is over.
        if not tell(ending, at_write={number: strike}, late_by=10_000).strikes.struck:
            break
    assert number > 15
