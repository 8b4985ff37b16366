"""A release picks the image that its workers run, and stops where none does."""

import pytest
from django.test import Client

from accounts.models import User
from clusters.models import Cluster, Deployment
from images.services import deprecate_image
from releases.errors import InvalidService, NotReleasable
from releases.models import Release
from releases.services.release import rollback
from releases.services.service import change_service
from releases.states import ReleaseState
from tests.cast import SYSTEM, team
from tests.clusters.world import gpu_of, node_of
from tests.images.builders import image
from tests.releases.world import Scene

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]

S = ReleaseState


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    scene = Scene(monkeypatch)
    gpu_of(node_of(scene.cluster, seen_at=scene.clock()), name="NVIDIA A100-SXM4-80GB", driver="535.104.05")
    return scene


def test_a_release_stops_before_any_worker_starts_when_no_image_fits(scene: Scene) -> None:
    Cluster.objects.update(kind="kubernetes")
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
    deprecate_image(actor=SYSTEM, image=old, reason="old")
    new = image("echo-2", engine="echo", engine_version="0.11")
    release = scene.start(plan_name="direct")
    scene.run_until_state(S.PROMOTED)
    assert Deployment.objects.get(name=scene.candidate).image == new
    step = release.steps.get(kind="deploy")
    assert step.detail["image"] == new.reference
    assert step.detail["image_reason"].startswith("echo-2: echo 0.11")
    back = rollback(release, actor=scene.requester, reason="worse")
    assert back.image == old


def test_the_form_foresees_what_a_release_would_run_or_why_it_would_stop(scene: Scene) -> None:
    ada = Client()
    ada.force_login(User.objects.get(username="ada"))
    form = f"/services/{scene.name}/release/"
    assert "id_image" not in ada.get(form).content.decode().replace("#id_image", "")
    image("echo-1", engine="echo", least_driver="550")
    Cluster.objects.update(kind="kubernetes")
    page = ada.get(form).content.decode()
    assert "It would stop before any worker starts." in page
    assert "echo-1: needs driver 550 or newer; NVIDIA A100-SXM4-80GB has 535.104.05." in page
    image("echo-2", engine="echo")
    part = {"HX-Request": "true", "HX-Target": "image-choice"}
    assert "echo-2: echo 0.10.0" in ada.get(form, headers=part).content.decode()
    named = ada.get(f"{form}?version=v2&image=echo-1", headers=part).content.decode()
    assert "Image echo-1 does not run story:v2" in named
    scene.follow("direct")
    ada.post(form, {"version": "v2", "plan": "direct", "image": "echo-2", "reason": "better"})
    release = Release.objects.get(service=scene.service, version=scene.v2)
    assert release.image is not None
    scene.release = release
    scene.run_until_state(S.PROMOTED)
    page = ada.get(f"/fleet/deployments/{scene.candidate}/").content.decode()
    assert "echo-2 was named." in page
    assert release.image.reference in page
    assert "/images/echo-2/" in ada.get(f"/releases/{release.pk}/").content.decode()
    used = ada.get("/images/echo-2/").content.decode()
    assert f"Deployment {scene.candidate} of service {scene.name}" in used


def test_a_service_or_a_release_may_name_an_image_of_its_engine(scene: Scene) -> None:
    named, other = image("echo-1", engine="echo"), image("vllm-1")
    image("echo-2", engine="echo", engine_version="0.11")
    for wrong in (other, image("theirs", team("vision"), engine="echo")):
        with pytest.raises(InvalidService):
            change_service(scene.service, actor=SYSTEM, image=wrong)
        with pytest.raises(NotReleasable):
            scene.start(image=wrong)
        scene.service.refresh_from_db()
    change_service(scene.service, actor=SYSTEM, image=named)
    scene.start(plan_name="direct")
    scene.run_until_state(S.PROMOTED)
    assert Deployment.objects.get(name=scene.candidate).image == named
    assert Release.objects.get(pk=scene.release.pk).image is None
