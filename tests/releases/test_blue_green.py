"""Both versions run in full: a preview for chosen clients, a switch, and the old one kept for a while."""

import pytest

from gateway.backends.fake import Behaviour
from releases.errors import InvalidPlan, NotReleasable
from releases.models import Service
from releases.plans.builtin import builtin_plan
from releases.plans.plan import parse_plan
from releases.services.release_header import set_release_header
from releases.states import ReleaseState as S
from tests.releases.world import Scene

pytestmark = [pytest.mark.django_db(transaction=True)]


def in_preview(scene: Scene) -> str:
    """Start a blue-green release and let it wait for its approval; returns the key of the release header."""
    key = set_release_header(scene.service, actor=scene.requester, header="secret")
    scene.service = Service.objects.get(pk=scene.service.pk)
    scene.start(plan_name="blue-green")
    scene.run_until_state(S.WAITING_APPROVAL)
    return key


def test_chosen_clients_try_it_then_all_traffic_switches_and_goes_back_as_fast(scene: Scene) -> None:
    key = in_preview(scene)
    assert scene.gateway.send(scene.name, 50) == {scene.stable: 50}
    assert scene.gateway.send(scene.name, 50, release="canary", key=key) == {scene.candidate: 50}
    assert scene.gateway.send(scene.name, 50, release="canary", key="guessed") == {scene.stable: 50}
    preview = scene.release.steps.get(kind="preview")
    assert f"/{scene.name}/" in str(preview.told)
    assert scene.gateway.counts(scene.name)[scene.candidate].requests == 0, "a preview is judged by nobody"

    scene.approve()
    scene.run_until(lambda: scene.split(100) == {scene.candidate: 100}, seconds=30)
    assert scene.running(scene.stable) == 2, "the old version is kept"
    scene.gateway.behave(scene.candidate, Behaviour(error_share=0.9))
    scene.run_until_state(S.ROLLED_BACK, seconds=60)
    assert scene.split(100) == {scene.stable: 100}


@pytest.mark.slow
def test_without_a_fault_it_is_promoted_and_the_old_version_stays_for_the_bake(scene: Scene) -> None:
    in_preview(scene)
    scene.approve()
    promoted = scene.run_until_state(S.PROMOTED, seconds=700)
    assert promoted.bake_until is not None
    assert scene.running(scene.stable) == 2


def test_a_preview_that_nobody_could_reach_is_refused(scene: Scene) -> None:
    set_release_header(scene.service, actor=scene.requester, header="off")
    scene.service = Service.objects.get(pk=scene.service.pk)
    with pytest.raises(NotReleasable, match="no client may choose"):
        scene.start(plan_name="blue-green")


def test_a_preview_comes_before_traffic() -> None:
    steps = builtin_plan("blue-green").model_dump(mode="json")["steps"]
    late = [*steps[:3], {"kind": "weight", "percent": 5}, {"kind": "preview"}, *steps[4:]]
    with pytest.raises(InvalidPlan, match="already has real traffic"):
        parse_plan({"name": "late", "steps": late})
