"""The image of a deployment's workers, and what happens when none fits."""

from typing import Any

import pytest

from clusters.backends.base import ObservedGpu, ObservedNode
from clusters.errors import NoImageFits
from clusters.models import Cluster, Deployment, Gpu
from clusters.reconcilers.inventory import ObservedCluster, record_machines
from clusters.services.clusters import change_cluster
from clusters.services.deployments import ensure_deployment
from common.errors import Stale
from images import services as catalogue
from tests.cast import SYSTEM, team
from tests.clusters.world import Scene, gpu_of, node_of
from tests.images.builders import image

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]


@pytest.fixture
def scene() -> Scene:
    return Scene()


def deploy(scene: Scene, **how: Any) -> Deployment:
    return ensure_deployment(
        **{
            "actor": SYSTEM,
            "name": "chat-v1",
            "op_key": "test",
            "cluster": scene.cluster,
            "team": scene.team,
            "service": "chat",
            "version": scene.version,
            "replicas": 1,
            "slots": 1,
            "engine": "vllm",
        }
        | how
    )


def give(cluster: Cluster, *gpus: tuple[str, str]) -> None:
    node = node_of(cluster)
    for index, (name, driver) in enumerate(gpus):
        gpu_of(node, index, name=name, driver=driver, memory_bytes=80 * 2**30)


def test_without_an_image_of_the_engine_a_machines_own_processes_need_none(scene: Scene) -> None:
    row = deploy(scene)
    assert (row.image, row.image_reference) == (None, "")
    assert row.image_reason == (
        "No image of the catalogue was picked on cluster local: workers are processes of its machine, which "
        "need none."
    )


def test_an_image_that_is_deprecated_keeps_no_process_from_running(scene: Scene) -> None:
    catalogue.deprecate_image(actor=SYSTEM, image=image(), reason="old")
    row = deploy(scene)
    assert row.image is None
    assert "vllm-10: is deprecated since" in row.image_reason
    scene.cluster.kind = "kubernetes"
    with pytest.raises(NoImageFits, match="vllm-10: is deprecated since"):
        deploy(scene, name="chat-v2", op_key="2")


def test_a_cluster_of_containers_needs_one(scene: Scene) -> None:
    scene.cluster.kind = "kubernetes"
    with pytest.raises(NoImageFits, match="has no image of vllm that team vision may use"):
        deploy(scene)
    assert not Deployment.objects.exists()


def test_the_best_image_is_kept_with_its_digest_its_mirror_and_why(scene: Scene) -> None:
    give(scene.cluster, ("NVIDIA H100 80GB HBM3", "535.104.05"))
    image("too-new", least_driver="550", engine_version="0.11")
    best = image("vllm-10", mirrors={"eu": "eu.example.org/vllm"})
    image("theirs", team("speech"), engine_version="1.0")
    change_cluster(actor=SYSTEM, cluster=scene.cluster, region="eu")
    row = deploy(scene)
    assert row.image == best
    assert row.image_reference == f"eu.example.org/vllm@{best.digest}"
    assert "fits NVIDIA H100 80GB HBM3 (compute capability 9.0, driver 535.104.05)" in row.image_reason
    assert "From the mirror of region eu." in row.image_reason
    scene.pass_(2)
    spec = scene.world.spec("chat-v1")
    assert spec is not None
    assert spec.image == row.image_reference


def test_when_none_fits_no_row_is_made_and_each_says_why(scene: Scene) -> None:
    give(scene.cluster, ("NVIDIA H100 80GB HBM3", "535.104.05"))
    image("a", least_driver="550")
    image("b", code=["8.0"])
    scene.cluster.kind = "kubernetes"
    with pytest.raises(NoImageFits) as refused:
        deploy(scene)
    assert "a: needs driver 550 or newer; NVIDIA H100 80GB HBM3 has 535.104.05." in str(refused.value)
    assert "b: is compiled for 8.0; NVIDIA H100 80GB HBM3 has compute capability 9.0." in str(refused.value)
    assert not Deployment.objects.exists()


def test_a_named_image_is_taken_even_if_deprecated_but_not_where_it_cannot_run(scene: Scene) -> None:
    give(scene.cluster, ("NVIDIA A100-SXM4-80GB", "580.65.06"))
    old = image("old", engine_version="0.8")
    image("new")
    catalogue.deprecate_image(actor=SYSTEM, image=old, reason="old")
    row = deploy(scene, image=old)
    assert row.image == old
    assert row.image_reason.startswith("old was named, though it is deprecated since")
    with pytest.raises(NoImageFits, match="Image blackwell does not run story:v1: it is compiled for"):
        deploy(scene, name="chat-v2", op_key="2", image=image("blackwell", code=["10.0"]))
    with pytest.raises(NoImageFits, match="belongs to another team"):
        deploy(scene, name="chat-v2", op_key="2", image=image("theirs", team("speech")))


def test_the_same_operation_keeps_its_image_whatever_came_since(scene: Scene) -> None:
    first = image("vllm-10")
    deploy(scene)
    image("vllm-11", engine_version="0.11")
    assert deploy(scene).image == first


def test_a_survey_notes_the_drivers(scene: Scene) -> None:
    seen = ObservedNode(
        uid="box",
        name="box",
        address="",
        cpu_count=1,
        memory_bytes=1,
        gpus=(ObservedGpu(uuid="GPU-1", index=0, name="H100", memory_bytes=1, driver="550.54.15"),),
    )
    record_machines(scene.cluster, ObservedCluster.of([seen]), scene.clock())
    assert Gpu.objects.get().driver == "550.54.15"


def test_a_region_is_changed_by_compare_and_set(scene: Scene) -> None:
    with pytest.raises(Stale):
        change_cluster(actor=SYSTEM, cluster=scene.cluster, region="eu", expected=7)
    assert Cluster.objects.get().region == ""
