"""A cluster takes its rights back in mid-release, and gives them again."""

from collections.abc import Callable
from typing import Any

import pytest

from clusters.models import Cluster
from clusters.states import ClusterState
from common import audit
from kube.fake.wire import UNKNOWN
from releases.models import ReleaseMove
from releases.services.plan import save_plan
from releases.states import ReleaseState as S
from tests.cast import SYSTEM
from tests.kube.accounts import grant, revoke
from tests.releases.kubernetes.world import NAMESPACE, PLAN, KubernetesScene, a_scene

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(600), pytest.mark.any_database]


def take_away(scene: KubernetesScene) -> Callable[[], object]:
    revoke(scene.server)
    return lambda: grant(scene.server, NAMESPACE)


def expire(scene: KubernetesScene) -> Callable[[], object]:
    before, scene.transport.user = scene.transport.user, UNKNOWN
    return lambda: setattr(scene.transport, "user", before)


@pytest.mark.parametrize("lose", [pytest.param(take_away, marks=pytest.mark.slow), expire])
def test_a_release_waits_for_rights_and_goes_on(
    settings: Any, lose: Callable[[KubernetesScene], Callable[[], object]]
) -> None:
    settings.SLIPWAY_CLUSTER_BACKENDS = {"kubernetes": "tests.releases.kubernetes.world"}
    steps = [
        {"kind": "deploy", "share_percent": 100, "ready_within_seconds": 900},
        {"kind": "weight", "percent": 5},
        {"kind": "weight", "percent": 30},
        {"kind": "promote"},
    ]
    with a_scene() as scene:
        save_plan(actor=SYSTEM, team=scene.team, name="brief", body=PLAN | {"steps": steps}, reason="Short.")
        scene.start()
        scene.run_until(lambda: scene.state() == S.RUNNING and scene.release.candidate_percent == 5)
        give_back = lose(scene)

        scene.run_for(90)

        assert scene.state() == S.RUNNING
        assert scene.release.candidate_percent == 5
        assert "Waiting for rights." in scene.release.last_error
        cluster = Cluster.objects.get()
        assert cluster.state in (ClusterState.NOT_READY, ClusterState.UNAVAILABLE)
        assert "failed" in {one["result"] for one in cluster.checks}

        give_back()
        scene.run_until(lambda: scene.state() == S.PROMOTED, seconds=300)
        assert not ReleaseMove.objects.filter(after=S.STUCK).exists()
        assert Cluster.objects.get().state in (ClusterState.READY, ClusterState.WARNING)
        assert audit.verify().intact
