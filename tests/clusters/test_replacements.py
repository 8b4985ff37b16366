"""Before a drain takes our workers, others are ready elsewhere, as far as there is room; nothing flaps."""

from dataclasses import replace

import pytest

from clusters.backends.base import ObservedGpu, ObservedState
from clusters.backends.fake import NODE
from clusters.draining.options import DrainOptions
from clusters.draining.replacing import Replacement
from clusters.draining.surges import surge_of
from clusters.models import Cluster, Deployment, Occupancy, Worker
from clusters.services.deployments import remove_deployment
from clusters.services.drains import cancel_drain, preview_drain
from clusters.states import DrainState
from tests.clusters.test_drains import SYSTEM, Draining

pytestmark = pytest.mark.django_db

OTHER = replace(
    NODE,
    uid="other-uid",
    name="other-node",
    gpus=tuple(
        ObservedGpu(uuid=f"GPU-other-{index}", index=index, name="Fake GPU", memory_bytes=80 * 2**30)
        for index in range(2)
    ),
)


class TwoMachines(Draining):
    """A deployment on the first of two machines; the second one has two GPUs."""

    def __init__(self) -> None:
        super().__init__()
        self.row = self.deployment("chat-v1")
        self.pass_(2)
        self.world.more_machines.append(OTHER)
        self.pass_(1)
        Cluster.objects.filter(pk=self.cluster.pk).update(next_at=self.clock())
        self.pass_(1)
        self.counted()
        self.world.starts_as = ObservedState.STARTING

    def counted(self, used: int = 0) -> None:
        Occupancy.objects.update_or_create(
            cluster=self.cluster,
            defaults={
                "used": {"other-node": {"gpu": {"others": used}}},
                "sizes": {},
                "seen_at": self.clock(),
            },
        )

    def workers(self) -> dict[str, str]:
        return {one.name: one.node for one in self.world.observe("chat-v1")}

    def ready(self) -> None:
        for name, node in self.workers().items():
            if node == "other-node":
                self.world.turn(name, ObservedState.READY)


@pytest.fixture
def scene() -> TwoMachines:
    return TwoMachines()


def test_workers_leave_when_others_are_ready_elsewhere_and_none_is_started_twice(scene: TwoMachines) -> None:
    row = scene.drain()
    scene.pass_(5)
    row = scene.now(row)
    assert row.state == DrainState.REPLACING
    assert scene.workers() == {
        "chat-v1-0": "fake-node",
        "chat-v1-1": "fake-node",
        "chat-v1-2": "other-node",
        "chat-v1-3": "other-node",
    }
    assert "2 of 2 of chat-v1" in row.problem
    scene.row.refresh_from_db()
    assert "2 workers more than 2 for now: fake-node is being drained" in scene.row.reason
    assert scene.row.state == "ready"

    scene.ready()
    scene.pass_(8)
    row = scene.now(row)
    assert (row.state, row.problem) == (DrainState.DRAINED, "")
    assert [(one["started"], one["ready"], one["why"]) for one in row.replacements] == [(2, 2, "")]
    assert scene.workers() == {"chat-v1-2": "other-node", "chat-v1-3": "other-node"}
    assert scene.evicted() == set(), "their deployment let go of them"
    scene.pass_(3)
    scene.row.refresh_from_db()
    assert (scene.row.state, scene.row.reason, scene.row.replicas) == ("ready", "", 2)
    assert surge_of(scene.row).extra == 0


def test_without_room_nothing_is_started_and_the_drain_says_so(scene: TwoMachines) -> None:
    scene.counted(used=1)
    preview = preview_drain_of(scene)
    assert [(one.started, one.leaving) for one in preview] == [(1, 2)]
    scene.counted(used=2)
    row = scene.drain()
    scene.pass_(3)
    row = scene.now(row)
    assert row.state == DrainState.EVICTING or row.state == DrainState.DRAINED
    assert row.replacements[0]["why"] == ("No other machine has 1 free of Fake GPU for 2 of its 2 workers.")
    scene.pass_(5)
    assert scene.evicted() >= {"chat-v1-0", "chat-v1-1"}


def test_after_its_time_the_drain_goes_on_without_and_says_so(scene: TwoMachines) -> None:
    row = scene.drain(replace_seconds=10)
    scene.pass_(8)
    assert scene.now(row).state == DrainState.REPLACING
    scene.pass_(8)
    row = scene.now(row)
    assert row.replacements[0]["why"].startswith("2 of 2 were not ready after 10 s")
    assert scene.evicted() == {"chat-v1-0", "chat-v1-1"}
    scene.pass_(5)
    assert scene.now(row).state == DrainState.DRAINED
    assert len(scene.workers()) == 2


def test_no_time_for_replacements_starts_none(scene: TwoMachines) -> None:
    row = scene.drain(replace_seconds=0)
    scene.pass_(4)
    assert scene.now(row).replacements[0]["started"] == 0
    assert "chat-v1-0" in scene.evicted()


def test_a_cancelled_drain_leaves_no_worker_too_many(scene: TwoMachines) -> None:
    row = scene.drain()
    scene.pass_(3)
    assert len(scene.workers()) == 4
    cancel_drain(actor=SYSTEM, drain=scene.now(row), reason="Not today.")
    scene.pass_(5)
    assert scene.now(row).state == DrainState.CANCELLED
    assert len(scene.workers()) == 2
    assert scene.evicted() == set()
    assert not Worker.objects.exclude(leaves_with=None).exists()


def test_a_deployment_that_is_removed_meanwhile_is_not_waited_for(scene: TwoMachines) -> None:
    row = scene.drain()
    scene.pass_(3)
    remove_deployment(actor=SYSTEM, name="chat-v1", reason="Over.")
    scene.pass_(8)
    assert scene.now(row).state == DrainState.DRAINED
    assert Deployment.objects.get().state == "removed"
    assert scene.workers() == {}


def preview_drain_of(scene: TwoMachines) -> list[Replacement]:
    import clusters.services.drains as services

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(services, "backend_of", lambda _cluster: scene.world)
        return list(preview_drain(actor=SYSTEM, node=scene.node, options=DrainOptions()).replacements)
