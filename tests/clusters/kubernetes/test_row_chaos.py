"""A deployment's row, whose cluster fails in every way at any call: when it says removed, nothing is left."""

import random
from dataclasses import replace
from typing import Any

import pytest

from clusters.backends.base import DeploymentSpec
from clusters.backends.kubernetes.backend import KubernetesCluster
from clusters.models import Deployment
from clusters.services.deployments import remove_deployment, scale_deployment
from clusters.states import DeploymentState
from common.fence import Fence
from kube.client import KubeClient
from kube.fake.chaos import Mishap
from tests.cast import SYSTEM
from tests.clusters.kubernetes.test_chaos import SETTINGS, World, check, removed
from tests.clusters.kubernetes.test_manifests import SPEC
from tests.clusters.world import Scene

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]
STEADY = 0.88
"""Of so many calls nothing comes in between."""


class Backend(KubernetesCluster):
    """Runs what the test's own spec says, as many times as the row wants it."""

    def apply(self, spec: DeploymentSpec, *, fence: Fence) -> None:
        super().apply(replace(SPEC, replicas=spec.replicas), fence=fence)

    def files_reason(self, spec: DeploymentSpec) -> str:
        return ""


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("ends_after_seconds", [0.5, 6])
def test_a_row_that_says_removed_has_left_nothing(ends_after_seconds: float, seed: int) -> None:
    chance, world, scene = random.Random(seed), World(), Scene()
    backend: Any = Backend(KubeClient(world.transport), SETTINGS, store_token="sesame")
    scene.world = backend

    def go_on(seconds: float) -> None:
        world.chaos.calls.extend(
            None if chance.random() < STEADY else chance.choice(list(Mishap)) for _ in range(200)
        )
        scene.pass_(seconds)
        world.collect_garbage()

    row = scene.deployment(SPEC.name, replicas=chance.choice([0, 2]))
    go_on(ends_after_seconds)
    if chance.random() < 0.5 and row.replicas:
        scale_deployment(actor=SYSTEM, name=row.name, replicas=3)
        go_on(2)
    remove_deployment(actor=SYSTEM, name=row.name, reason="aborted")
    for _ in range(40):
        go_on(4)
        row.refresh_from_db()
        if row.state == DeploymentState.REMOVED:
            break
    assert Deployment.objects.get(pk=row.pk).state == DeploymentState.REMOVED
    world.chaos.calm()
    world.chaos.serve_late()
    world.cluster.tidy(())
    world.collect_garbage()
    check(world, removed)
