"""The choice of a file delivery, by what a cluster has and its settings."""

from typing import Any

import pytest

from clusters.backends.base import CannotRun, Misconfigured
from clusters.backends.kubernetes.settings import KubernetesSettings
from tests.clusters.kubernetes.files_world import STORY, FilesWorld


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


def test_where_there_is_no_way_it_says_what_to_set() -> None:
    world = FilesWorld(store_url="")
    with pytest.raises(
        CannotRun, match=r"no way for model files .* set store_url\..* no volume claim slipway-models"
    ):
        world.apply()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"model_files": "filled_claim"}, "no storage class"),
    ],
)
def test_a_way_that_is_set_and_cannot_be_is_refused_in_words(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(CannotRun, match=words):
        FilesWorld(**settings).apply()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"claim_access_mode": "ReadWriteOncePod"}, "claim_access_mode: one of"),
        ({"node_cache_gib": -1}, "node_cache_gib: a number of GiB"),
    ],
)
def test_settings_of_a_way_that_cannot_be_meant_are_named(given: dict[str, Any], words: str) -> None:
    with pytest.raises(Misconfigured, match=words):
        KubernetesSettings.read(given)


def test_a_number_from_a_command_line_is_read_as_one() -> None:
    assert KubernetesSettings.read({"node_cache_gib": "200"}).node_cache_gib == 200
