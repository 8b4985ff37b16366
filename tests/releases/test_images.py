"""A release picks the image that its workers run, and stops where none does."""

import pytest

from clusters.models import Deployment, Gpu, Node
from releases import services
from releases.errors import InvalidService, NotReleasable
from releases.models import Release
from releases.states import ReleaseState
from tests.cast import SYSTEM, team
from tests.images.builders import image
from tests.releases.world import Scene

pytestmark = pytest.mark.django_db

S = ReleaseState


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    scene = Scene(monkeypatch)
    node = Node.objects.create(cluster=scene.cluster, name="box", seen_at=scene.clock())
    Gpu.objects.create(node=node, index=0, name="NVIDIA A100-SXM4-80GB", driver="535.104.05")
    return scene


def test_a_release_stops_before_any_worker_starts_when_no_image_fits(scene: Scene) -> None:
    image("echo-1", engine="echo", least_driver="550")
    scene.start()
    scene.run_until_state(S.FAILED, seconds=30)
    assert scene.release.outcome == (
        "No image runs story:v2 with echo on cluster local. "
        "echo-1: needs driver 550 or newer; NVIDIA A100-SXM4-80GB has 535.104.05."
    )
    assert not Deployment.objects.filter(name=scene.candidate).exists()
    assert scene.split() == {scene.stable: 500}


def test_a_release_keeps_what_it_picked_and_a_rollback_returns_to_what_served(scene: Scene) -> None:
    before = Deployment.objects.get(name=scene.service.stable_deployment)
    old = image("echo-1", engine="echo")
    Deployment.objects.filter(pk=before.pk).update(image=old)
    new = image("echo-2", engine="echo", engine_version="0.11")
    release = scene.start(plan_name="direct")
    scene.run_until_state(S.PROMOTED)
    assert Deployment.objects.get(name=scene.candidate).image == new
    step = release.steps.get(kind="deploy")
    assert step.detail["image"] == new.reference
    assert step.detail["image_reason"].startswith(
        "echo-2: echo 0.11 with CUDA 12.4 is the best of 2 that fit"
    )
    back = services.rollback(release, actor=scene.requester, reason="worse")
    assert back.image == old


def test_a_service_or_a_release_may_name_an_image_of_its_engine(scene: Scene) -> None:
    named, other = image("echo-1", engine="echo"), image("vllm-1")
    image("echo-2", engine="echo", engine_version="0.11")
    for wrong in (other, image("theirs", team("vision"), engine="echo")):
        with pytest.raises(InvalidService):
            services.change_service(scene.service, actor=SYSTEM, image=wrong)
        with pytest.raises(NotReleasable):
            scene.start(image=wrong)
        scene.service.refresh_from_db()
    services.change_service(scene.service, actor=SYSTEM, image=named)
    scene.start(plan_name="direct")
    scene.run_until_state(S.PROMOTED)
    assert Deployment.objects.get(name=scene.candidate).image == named
    assert Release.objects.get(pk=scene.release.pk).image is None
