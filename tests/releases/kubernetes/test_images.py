"""Images of a cluster's services: one that cannot be pulled is marked, and none changes unasked."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from accounts.states import Role
from clusters.backends.pulls import ObservedPull
from clusters.models import Deployment
from clusters.services.deployments import ensure_deployment
from clusters.services.image_pulls import record_pulls
from images.models import ImagePullFailure
from images.services import deprecate_image
from kube.fake.controllers.machines import behaviour_of
from releases.models import Release
from releases.services.release import abort
from releases.states import ReleaseState
from tests.cast import SYSTEM, client_of, person, team
from tests.images.builders import image
from tests.releases.kubernetes.world import KubernetesScene, a_scene

pytestmark = [pytest.mark.django_db, pytest.mark.every_database]
NEWER = {"engine": "echo", "engine_version": "0.11.0"}


@pytest.fixture
def scene(settings: Any) -> Iterator[KubernetesScene]:
    settings.SLIPWAY_CLUSTER_BACKENDS = {"kubernetes": "tests.releases.kubernetes.world"}
    with a_scene() as scene:
        yield scene


class Registry:
    """Repositories of it are away as long as a test says so."""

    def __init__(self, scene: KubernetesScene) -> None:
        self.away: set[str] = set()
        scene.server.kubelets.behaviour_of = self._behaviour

    def _behaviour(self, pod: dict[str, Any]) -> str:
        if any(one["image"] in self.away for one in pod["spec"]["containers"]):
            return "imagepull"
        return "succeed" if "job-name" in pod["metadata"].get("labels", {}) else behaviour_of(pod)


def deploy(scene: KubernetesScene, name: str) -> Deployment:
    return ensure_deployment(
        actor=SYSTEM,
        name=name,
        op_key=name,
        cluster=scene.cluster,
        team=scene.team,
        service=name,
        version=scene.v1,
        replicas=1,
        slots=1,
        engine="echo",
    )


def marks() -> list[str]:
    return list(ImagePullFailure.objects.values_list("image__name", flat=True))


def test_an_image_that_cannot_be_pulled_is_chosen_by_nobody_until_a_pull_works(
    scene: KubernetesScene,
) -> None:
    newer = image("worker-2", **NEWER)
    registry = Registry(scene)
    registry.away = {newer.reference}
    assert deploy(scene, "other").image == newer
    scene.run_until(lambda: marks() == ["worker-2"], seconds=30)
    assert "not found" in ImagePullFailure.objects.get().reason
    unrelated = deploy(scene, "unrelated")
    assert unrelated.image is not None
    assert unrelated.image.name == "worker"
    registry.away.clear()
    scene.run_until(lambda: not marks(), seconds=60)
    assert deploy(scene, "later").image == newer


def test_a_later_pull_of_another_pod_takes_the_mark_and_an_earlier_one_does_not(
    scene: KubernetesScene,
) -> None:
    newer = image("worker-2", **NEWER)
    Registry(scene).away = {newer.reference}
    deploy(scene, "other")
    scene.run_until(lambda: marks() == ["worker-2"], seconds=30)
    failure = ImagePullFailure.objects.get()

    def pulled(at: Any) -> ObservedPull:
        words = {"machine": "gpu-0", "pod_uid": str(at), "reference": newer.reference}
        return ObservedPull(**words, seconds=1.0, waited_seconds=1.0, size_bytes=0, at=at)

    record_pulls(scene.cluster, [pulled(failure.since.replace(year=2020))])
    assert marks() == ["worker-2"]
    record_pulls(scene.cluster, [pulled(failure.at.replace(year=2099))])
    assert marks() == []


def test_page_list_and_rest_show_a_failed_pull_and_who_operates_clears_it(scene: KubernetesScene) -> None:
    newer = image("worker-2", **NEWER)
    mark = {"reason": "Its image cannot be pulled: not found", "since": scene.clock(), "at": scene.clock()}
    ImagePullFailure.objects.create(image=newer, cluster="west", **mark)
    hidden = ImagePullFailure.objects.create(image=newer, cluster="east", team=team("vision"), **mark)
    operator = client_of(person("olga", superuser=True))
    viewer = client_of(person("vito", speech=Role.VIEWER))
    for path in ("/images/", "/images/worker-2/"):
        shown = viewer.get(path).content.decode()
        assert "west" in shown
        assert "east" not in shown
    documents = {one["name"]: one for one in viewer.get("/api/v1/images/").json()["results"]}
    assert [one["cluster"] for one in documents["worker-2"]["pull_failures"]] == ["west"]
    hidden.delete()

    def clear(client: Any) -> Any:
        body = json.dumps({"cluster": "west", "reason": "The registry has it again."})
        path = "/api/v1/images/worker-2/clear-pull-failure/"
        return client.post(path, body, content_type="application/json")

    assert clear(viewer).status_code == 403
    assert clear(operator).json()["pull_failures"] == []
    assert clear(operator).status_code == 409


def test_a_release_keeps_the_services_image_until_somebody_asks_for_another(scene: KubernetesScene) -> None:
    newer = image("worker-2", **NEWER)
    deprecated = Deployment.objects.get(name=scene.service.stable_deployment).image
    assert deprecated is not None

    def candidate_of(**asked: Any) -> Deployment:
        release = scene.start(**asked)
        name = release.candidate_deployment
        scene.run_until(lambda: Deployment.objects.filter(name=name).exists(), seconds=60)
        abort(release, actor=SYSTEM, reason="Seen.")
        ended = [ReleaseState.ABORTED]
        scene.run_until(lambda: Release.objects.get(pk=release.pk).state in ended, seconds=120)
        return Deployment.objects.get(name=name)

    row = candidate_of()
    assert row.image == deprecated
    assert "kept" in row.image_reason
    assert candidate_of(image=newer).image == newer
    deprecate_image(actor=SYSTEM, image=deprecated, reason="old")
    row = candidate_of()
    assert row.image == newer
    assert "worker: is deprecated" in row.image_reason
