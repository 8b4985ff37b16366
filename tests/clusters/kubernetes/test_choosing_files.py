"""Which way a version's files take to pods, by what a cluster has and what its settings say."""

from typing import Any

import pytest

from clusters.backends.base import CannotRun, Misconfigured
from clusters.backends.kubernetes.settings import KubernetesSettings
from tests.clusters.kubernetes.files_world import STORY, FilesWorld

IMAGE = f"registry.example/parrot@sha256:{'1' * 64}"
MOUNT = "pvc://slipway-models/versions/{digest}"


def reason(world: FilesWorld) -> str:
    return world.cluster.files_reason(STORY)


def test_a_cache_of_each_machine_where_pods_reach_slipway() -> None:
    assert reason(FilesWorld()).startswith("Each machine keeps a cache: pods reach Slipway at store_url")


def test_where_no_directory_of_machines_may_be_used_a_claim_is_filled() -> None:
    world = FilesWorld()
    world.enforce("restricted")
    world.storage_class("disks", "ebs.csi.aws.com", is_default=True)
    world.storage_class("files", "rook-ceph.cephfs.csi.ceph.com")
    assert reason(world) == (
        "A volume claim per version, filled by a Job: storage class files (volumes of "
        "rook-ceph.cephfs.csi.ceph.com can be shared). The namespace enforces the restricted pod security "
        "standard, which allows no directory of machines."
    )


def test_an_image_that_is_named_for_a_version_goes_before_all() -> None:
    world = FilesWorld(model_images={"parrot:v2": IMAGE})
    assert reason(world) == "An image volume: the cluster's settings name one for parrot:v2."
    world.apply()
    assert world.models_volume()["image"]["reference"] == IMAGE


def test_fluid_where_it_is_installed_and_told_where_the_files_lie() -> None:
    assert reason(FilesWorld(with_fluid=True, fluid_mount=MOUNT)).startswith("A Fluid dataset per version:")
    assert reason(FilesWorld(fluid_mount=MOUNT)).startswith("Each machine keeps a cache")


def test_where_there_is_no_way_it_says_what_to_set() -> None:
    world = FilesWorld(store_url="")
    with pytest.raises(
        CannotRun, match=r"no way for model files .* set store_url\..* no volume claim slipway-models"
    ):
        world.apply()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"model_files": "fluid", "fluid_mount": MOUNT}, "cannot be: Fluid is not installed"),
        ({"model_files": "filled_claim"}, "no storage class"),
        ({"model_files": "image", "model_images": {"other:v1": IMAGE}}, "names none for parrot:v2"),
    ],
)
def test_a_way_that_is_set_and_cannot_be_is_refused_in_words(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(CannotRun, match=words):
        FilesWorld(**settings).apply()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"model_images": {"a:v1": "registry/a:latest"}}, "needs a reference by digest"),
        ({"model_images": "a"}, "model_images: texts by their names"),
        ({"fluid_mount": "s3://{bucket}"}, "there are id, digest, model and version"),
        ({"fluid_runtime": "magic"}, "fluid_runtime: one of"),
        ({"fluid_secret_options": {"key": "nothing"}}, "needs SECRET/KEY"),
        ({"claim_access_mode": "ReadWriteOncePod"}, "claim_access_mode: one of"),
        ({"fluid_replicas": 0}, "fluid_replicas: a number from 1 on"),
    ],
)
def test_settings_of_a_way_that_cannot_be_meant_are_named(given: dict[str, Any], words: str) -> None:
    with pytest.raises(Misconfigured, match=words):
        KubernetesSettings.read(given)


def test_a_command_lines_texts_are_read_as_what_they_stand_for() -> None:
    read = KubernetesSettings.read({"model_images": f"a:v1={IMAGE}, b:v2={IMAGE}", "node_cache_gib": "200"})
    assert (read.model_images, read.node_cache_gib) == ({"a:v1": IMAGE, "b:v2": IMAGE}, 200)
