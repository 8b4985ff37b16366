"""A plan can send the candidate copies of requests, where the gateway can make them."""

import pytest

from gateway.models import Gateway
from releases.errors import InvalidPlan, NotReleasable
from releases.models import Release
from releases.plans.plan import parse_plan
from releases.services.plan import save_plan
from releases.services.release import abort
from releases.states import ReleaseState as S
from tests.releases.world import Scene

pytestmark = pytest.mark.django_db(transaction=True)

STEPS = [
    {"kind": "deploy", "share_percent": 100},
    {"kind": "mirror", "percent": 20, "seconds": 10},
    {"kind": "weight", "percent": 50},
    {"kind": "promote"},
]


@pytest.fixture
def mirroring(scene: Scene) -> Scene:
    save_plan(actor=scene.requester, team=scene.team, name="shadow", body={"steps": STEPS})
    return scene


def mirror_percent(scene: Scene) -> int:
    spec = scene.gateway.desired_route(scene.name)
    return spec.mirror_percent if spec else 0


def test_copies_are_made_for_as_long_as_the_plan_says_and_then_no_more(mirroring: Scene) -> None:
    mirroring.start(plan_name="shadow")
    mirroring.run_until(lambda: mirror_percent(mirroring) == 20)
    assert set(mirroring.split(50)) == {mirroring.stable}
    mirroring.run_until_state(S.PROMOTED)
    assert mirror_percent(mirroring) == 0
    note = mirroring.release.steps.get(kind="mirror").detail["note"]
    assert note.startswith("The candidate got copies of 20 % of the requests for 1")


def test_an_abort_ends_the_copies(mirroring: Scene) -> None:
    mirroring.start(plan_name="shadow")
    mirroring.run_until(lambda: mirror_percent(mirroring) == 20)
    abort(mirroring.release, actor=mirroring.requester, reason="no")
    mirroring.run_until_state(S.ABORTED)
    assert mirror_percent(mirroring) == 0


def test_a_plan_that_asks_what_the_gateway_cannot_is_refused_before_it_starts(mirroring: Scene) -> None:
    Gateway.objects.update(cannot={"mirror_percent": "The gateway class x does not support it."})
    count = Release.objects.count()
    with pytest.raises(
        NotReleasable, match=r"Step 2 of the plan \(mirror 20 % for 10 s\) cannot be done here"
    ):
        mirroring.start(plan_name="shadow")
    assert Release.objects.count() == count


def test_copies_come_before_the_first_share() -> None:
    steps = [STEPS[0], STEPS[2], STEPS[1], STEPS[3]]
    with pytest.raises(InvalidPlan, match="put the mirror before the first weight"):
        parse_plan({"name": "x", "steps": steps})
