"""A rule picks the cluster of a service, and says of each why or why not."""

from dataclasses import replace
from datetime import timedelta

import pytest
from django.utils import timezone

from clusters.candidates import candidates
from clusters.choosing import ClusterRequirements, EligibleCluster, OfferedGpus, choose, with_resource
from clusters.models import Cluster, Occupancy, Worker
from clusters.states import ClusterState
from tests.cast import team
from tests.clusters.world import Scene, gpu_of, node_of

NOW = timezone.now()
WEST = EligibleCluster(
    name="west",
    state=ClusterState.READY,
    region="eu-west",
    provider="aws",
    labels={"tier": "gold"},
    gpus=[OfferedGpus("NVIDIA H100 80GB HBM3", 3, 8), OfferedGpus("NVIDIA L4", 2, 2)],
    seen_at=NOW,
)
EAST = replace(WEST, name="east", region="eu-east", gpus=[OfferedGpus("NVIDIA H100 80GB HBM3", 5, 8)])


def why(candidate: EligibleCluster, **rule: object) -> str:
    choice = choose([candidate], ClusterRequirements(**rule), now=NOW)
    assert choice.cluster == ""
    return choice.considered[0].says


def test_of_those_that_fit_the_one_with_the_most_free_gpus_of_the_kind_is_chosen() -> None:
    choice = choose([WEST, EAST], ClusterRequirements(gpu="h100", free_gpus=2), now=NOW)
    assert choice.cluster == "east"
    assert [one.says for one in choice.considered] == [
        "It fits, and 5 GPUs h100 are free there: the most.",
        "It fits, and 3 GPUs h100 are free there.",
    ]


def test_of_equals_the_first_by_name_is_chosen() -> None:
    assert choose([replace(WEST, name="a"), WEST], ClusterRequirements(), now=NOW).cluster == "a"


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ({"region": "us"}, "Its region is eu-west, not us."),
        ({"provider": "gcp"}, "Its provider is aws, not gcp."),
        ({"labels": {"tier": "silver"}}, "It has no label tier=silver."),
        ({"gpu": "B200"}, "It has no B200."),
        ({"gpu": "H100", "free_gpus": 4}, "It has 3 GPUs H100 free, of 4 wanted."),
        ({"free_gpus": 6}, "It has 5 GPUs free, of 6 wanted."),
    ],
)
def test_what_speaks_against_a_cluster_is_said(rule, says) -> None:
    assert why(WEST, **rule) == says


H100, SLICE = "NVIDIA H100 80GB HBM3", "nvidia.com/mig-1g.10gb"
CUT = replace(
    WEST, gpus=[OfferedGpus(H100, 1, 8, "nvidia.com/gpu"), OfferedGpus(f"{H100} MIG 1g.10gb", 5, 7, SLICE)]
)


def test_slices_are_counted_where_they_are_asked_for_and_nowhere_else() -> None:
    assert why(CUT, gpu="h100", free_gpus=2) == "It has 1 GPUs h100 free, of 2 wanted."
    assert why(CUT, gpu_resource=SLICE, free_gpus=6) == f"It has 5 {SLICE} free, of 6 wanted."
    assert why(CUT, gpu_resource="amd.com/gpu") == (f"It has no amd.com/gpu. It has nvidia.com/gpu, {SLICE}.")
    for rule in (
        ClusterRequirements(gpu="mig 1g", free_gpus=5),
        with_resource(ClusterRequirements(free_gpus=5), SLICE),
    ):
        assert choose([CUT], rule, now=NOW).cluster == "west"
    # Machines of which nobody counts pods have whole GPUs, of no name.
    assert (
        choose([WEST], ClusterRequirements(gpu_resource="nvidia.com/gpu", free_gpus=5), now=NOW).cluster
        == "west"
    )


def test_nothing_is_decided_on_a_cluster_that_is_silent_or_not_ready() -> None:
    assert why(replace(WEST, seen_at=NOW - timedelta(minutes=6))) == "It was not seen for a while."
    assert why(replace(WEST, state=ClusterState.NOT_READY)) == "It is not ready."


@pytest.mark.django_db
def test_free_gpus_are_those_of_machines_that_take_workers_and_that_no_worker_has() -> None:
    scene = Scene()
    now = timezone.now()
    Cluster.objects.update(surveyed_at=now, checked_at=now)
    box, shut = node_of(scene.cluster), node_of(scene.cluster, "shut", is_cordoned=True)
    for node in (box, shut):
        for index in range(4):
            gpu_of(node, index)
    row = scene.deployment(resources={"gpus_per_worker": 3})
    Worker.objects.create(deployment=row, uid="w", name="w", node=box, state="ready", state_since=now)
    Cluster.objects.create(name="theirs", kind="kubernetes", team=team("speech"))
    (found,) = candidates(scene.team)
    assert (found.name, found.state, found.gpus) == ("local", ClusterState.READY, [OfferedGpus("H100", 1, 4)])


@pytest.mark.django_db
def test_gpus_that_pods_of_others_hold_are_not_free_where_they_are_counted() -> None:
    scene = Scene()
    now = timezone.now()
    Cluster.objects.update(surveyed_at=now, checked_at=now)
    box = node_of(scene.cluster)
    for index in range(4):
        gpu_of(box, index)
    held = Occupancy.objects.create(
        cluster=scene.cluster, used={box.name: {"gpu": {"ours": 0, "others": 3}}}, seen_at=now
    )

    assert candidates(scene.team)[0].gpus == [OfferedGpus("H100", 1, 4)]
    held.seen_at = now - timedelta(minutes=9)
    held.save()
    assert candidates(scene.team)[0].gpus == [OfferedGpus("H100", 4, 4)], "an old count decides nothing"
