"""A deployment's workers are what was wished for, and its row says in words how they are."""

import re
from datetime import timedelta

import pytest
from django.utils import timezone

from clusters import selectors
from clusters.backends.base import CannotRun, FilesFetch, FilesPending, ObservedState
from clusters.events import DeploymentFailing, DeploymentReady, DeploymentRemoved, WorkersChanged
from clusters.models import Deployment, Worker
from clusters.services.deployments import remove_deployment, scale_deployment
from clusters.states import DeploymentState, WorkerState
from common import events
from common.actor import Actor
from common.models import AuditRecord
from model_store.events import BlobRepaired
from model_store.models import CorruptBlob
from model_store.services import begin_check
from model_store.states import CorruptBlobState
from models_registry.models import VersionFile
from tests.cast import SYSTEM
from tests.clusters.world import Scene, version_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def scene() -> Scene:
    return Scene()


@pytest.fixture
def told(request):
    """Every event of these kinds, in order."""
    heard: list[object] = []
    kinds = (WorkersChanged, DeploymentReady, DeploymentFailing, DeploymentRemoved)
    for kind in kinds:
        events.subscribe(kind, heard.append)
    return heard


@pytest.fixture
def blob(scene) -> str:
    """Return a blob that the scene's version needs."""
    VersionFile.objects.bulk_create(
        [VersionFile(version=scene.version, path="weights", size=1, sha256="b" * 64)]
    )
    return "b" * 64


def status(scene: Scene, name: str = "chat-v1") -> selectors.DeploymentStatus:
    return selectors.deployment_status(name)


def test_a_new_deployment_gets_its_workers_and_becomes_ready(scene, told) -> None:
    row = scene.deployment()
    scene.pass_(1)
    now = status(scene)
    assert (now.state, now.wanted, now.ready, now.reason) == (DeploymentState.READY, 2, 2, "")
    assert [worker.name for worker in now.workers] == ["chat-v1-0", "chat-v1-1"]
    assert told == [WorkersChanged(row.pk), DeploymentReady(row.pk)]
    assert len(selectors.endpoints("chat-v1").addresses) == 2


def test_workers_that_load_are_starting_and_receive_nothing(scene, told) -> None:
    scene.world.starts_as = ObservedState.STARTING
    row = scene.deployment()
    scene.pass_(2)
    assert status(scene).state == DeploymentState.STARTING
    assert status(scene).reason == "0 of 2 workers are ready"
    assert selectors.endpoints("chat-v1").addresses == ()
    scene.world.turn("chat-v1-0", ObservedState.READY)
    scene.pass_(1)
    assert status(scene).reason == "1 of 2 workers are ready"
    assert len(selectors.endpoints("chat-v1").addresses) == 1
    assert told == [WorkersChanged(row.pk)]


def test_a_killed_worker_means_degraded_until_it_is_back(scene, told) -> None:
    scene.deployment()
    scene.pass_(1)
    told.clear()
    scene.world.crash_with("chat-v1-1", "", reason="terminated by SIGKILL")
    scene.pass_(3)
    now = status(scene)
    assert now.state == DeploymentState.DEGRADED
    assert now.reason.startswith("1 of 2 workers are ready; chat-v1-1 exited: ")
    assert "terminated by SIGKILL" in now.reason
    assert now.restarts == 1
    scene.world.turn("chat-v1-1", ObservedState.READY)
    scene.pass_(1)
    assert status(scene).state == DeploymentState.READY
    assert [type(event) for event in told] == [WorkersChanged, WorkersChanged, DeploymentReady]


def test_a_worker_that_keeps_crashing_is_failing_with_the_line_that_says_why(scene, told) -> None:
    row = scene.deployment()
    scene.pass_(1)
    for _ in range(3):
        scene.world.crash_with("chat-v1-1", "Traceback:\nRuntimeError: CUDA out of memory\nbye")
        scene.pass_(10)
    now = status(scene)
    assert now.state == DeploymentState.FAILING
    # It is looked at every two seconds or so: the span is as exact as that.
    said = r"chat-v1-1 exited 3 times in (1[789]|2[012]) s: .*exit status 1.*RuntimeError: CUDA out of memory"
    assert re.fullmatch(said, now.reason)
    assert "RuntimeError: CUDA out of memory\nbye" in now.log_tail
    assert DeploymentFailing(row.pk) in told
    assert AuditRecord.objects.filter(action="deployment.failing", reason__contains="CUDA").count() == 1


def test_the_reason_stays_the_same_while_nothing_happens(scene) -> None:
    row = scene.deployment()
    scene.pass_(1)
    for _ in range(3):
        scene.world.crash_with("chat-v1-1", "RuntimeError: no")
        scene.pass_(1)
    before = status(scene).reason
    scene.pass_(5)
    assert status(scene).reason == before
    row.refresh_from_db()
    assert row.observed_at is not None


def test_a_worker_whose_engine_failed_fails_the_deployment_at_once(scene) -> None:
    scene.world.starts_as = ObservedState.STARTING
    scene.deployment()
    scene.pass_(1)
    scene.world.turn("chat-v1-0", ObservedState.FAILED, reason="The weights are truncated.", pid=7)
    scene.pass_(1)
    assert status(scene).state == DeploymentState.FAILING
    assert status(scene).reason == "chat-v1-0 failed: The weights are truncated."


def test_a_worker_between_two_starts_is_not_failing_yet_but_one_left_alone_is(scene) -> None:
    scene.deployment()
    scene.pass_(1)
    scene.world.turn("chat-v1-0", ObservedState.FAILED, reason="exit status 1")
    scene.pass_(3)
    assert status(scene).state == DeploymentState.DEGRADED
    scene.pass_(10)
    assert status(scene).state == DeploymentState.FAILING


def test_crashes_are_forgiven_after_a_while_of_health(scene) -> None:
    scene.deployment()
    scene.pass_(1)
    for _ in range(4):
        scene.world.crash_with("chat-v1-0", "ValueError: x")
        scene.pass_(3)
        scene.world.turn("chat-v1-0", ObservedState.READY)
        scene.pass_(35)
    scene.world.crash_with("chat-v1-0", "ValueError: x")
    scene.pass_(3)
    assert status(scene).state == DeploymentState.DEGRADED
    assert status(scene).restarts == 5


def test_a_machine_that_was_switched_off_runs_everything_again(scene) -> None:
    scene.deployment()
    scene.pass_(1)
    scene.world.crash_with("chat-v1-0", "x")
    scene.world.turn("chat-v1-0", ObservedState.READY)
    scene.pass_(3)
    scene.world.forget()
    scene.pass_(5)
    assert status(scene).state == DeploymentState.READY
    assert status(scene).restarts == 1
    assert len(selectors.endpoints("chat-v1").addresses) == 2


def test_scaling_down_takes_the_surplus_from_the_gateway_while_it_drains(scene, told) -> None:
    scene.world.drains_at_once = False
    scene.deployment(replicas=3)
    scene.pass_(1)
    told.clear()
    scale_deployment(actor=SYSTEM, name="chat-v1", replicas=1)
    scene.clock.at = max(scene.clock.at, timezone.now())
    scene.pass_(2)
    assert {worker.state for worker in Worker.objects.exclude(uid="chat-v1-0")} == {WorkerState.DRAINING}
    assert len(told) == 1
    assert len(selectors.endpoints("chat-v1").addresses) == 1
    scene.world.end("chat-v1-1")
    scene.world.end("chat-v1-2")
    scene.pass_(1)
    assert [worker.name for worker in status(scene).workers] == ["chat-v1-0"]
    assert status(scene).state == DeploymentState.READY


def test_scaling_up_starts_only_what_is_missing(scene) -> None:
    scene.deployment(replicas=1)
    scene.pass_(1)
    first = scene.world.observe("chat-v1")[0].pid
    scale_deployment(actor=SYSTEM, name="chat-v1", replicas=3)
    scene.clock.at = max(scene.clock.at, timezone.now())
    scene.pass_(1)
    assert [seen.pid == first for seen in scene.world.observe("chat-v1")] == [True, False, False]
    assert status(scene).state == DeploymentState.READY


def test_what_the_cluster_cannot_run_is_said_and_tried_again(scene) -> None:
    scene.world.cannot_run = "vllm is not installed on this machine."
    scene.deployment()
    scene.pass_(20)
    assert status(scene).state == DeploymentState.FAILING
    assert status(scene).reason == "vllm is not installed on this machine."
    assert not status(scene).is_stuck
    scene.world.cannot_run = ""
    scene.pass_(5)
    assert status(scene).state == DeploymentState.READY


def test_files_that_are_missing_fail_the_deployment_in_words(scene) -> None:
    scene.files_error = CannotRun("The store does not hold abc…")
    scene.deployment()
    scene.pass_(2)
    assert status(scene).state == DeploymentState.FAILING
    assert status(scene).reason == "The store does not hold abc…"


def test_workers_that_answer_go_on_while_files_for_others_are_missing(scene) -> None:
    scene.deployment()
    scene.pass_(2)
    scene.files_error = CannotRun("The stored content of README.md is damaged.")
    scene.world.crash_with("chat-v1-0", "")
    scene.pass_(2)
    now = status(scene)
    assert (now.state, now.ready) == (DeploymentState.DEGRADED, 1)
    assert now.reason.startswith("1 of 2 workers are ready")
    assert now.reason.endswith("The stored content of README.md is damaged.")
    scene.world.turn("chat-v1-0", ObservedState.READY)
    scene.pass_(2)
    now = status(scene)
    assert (now.state, now.reason) == (DeploymentState.READY, "The stored content of README.md is damaged.")
    scene.files_error = None
    scene.pass_(3)
    assert (status(scene).state, status(scene).reason) == (DeploymentState.READY, "")


def test_files_on_their_way_to_the_node_are_waited_for(scene) -> None:
    come = FilesFetch(place="box", come_bytes=5, size_bytes=10, bytes_per_second=1)
    scene.files_error = FilesPending("5 of 10 bytes are here.", (come,))
    scene.deployment()
    scene.pass_(2)
    assert status(scene).state == DeploymentState.STARTING
    assert status(scene).reason == "5 of 10 bytes are here."
    assert [(one["place"], one["left_seconds"]) for one in status(scene).fetches] == [("box", 5)]
    scene.files_error = None
    scene.pass_(5)
    assert status(scene).state == DeploymentState.READY
    assert status(scene).fetches == []


def test_a_worker_that_ended_finds_its_files_again(scene) -> None:
    scene.deployment()
    scene.pass_(5)
    made = scene.brought
    scene.pass_(5)
    assert scene.brought == made
    # Its directory went, since a file in it was damaged and has been repaired.
    scene.world.crash_with("chat-v1-0", "It has no config.json.")
    scene.pass_(5)
    assert scene.brought > made


def test_files_are_laid_out_again_after_a_repair_before_a_worker_needs_them(scene, blob) -> None:
    scene.deployment()
    other = scene.deployment("sum-v1", version=version_of(scene.team, "sum:v1"))
    scene.pass_(5)
    before, made = status(scene), scene.brought
    events.publish(BlobRepaired(blob))
    other.refresh_from_db()
    assert other.applied_generation == other.generation
    scene.pass_(2)
    assert scene.brought == made + 1
    assert (status(scene).state, status(scene).restarts) == (before.state, 0)


def test_a_version_with_another_damaged_file_is_left_as_it_is(scene, blob) -> None:
    row = scene.deployment()
    scene.pass_(2)
    other = "c" * 64
    VersionFile.objects.bulk_create([VersionFile(version=scene.version, path="more", size=1, sha256=other)])
    check = begin_check(actor=Actor.system("test"))
    corrupt_blob = CorruptBlob.objects.create(found_by=check, sha256=other, size=1, detail="It is gone.")
    scene.files_error = CannotRun("The stored content of more is gone.")
    events.publish(BlobRepaired(blob))
    scene.pass_(2)
    assert status(scene).state == DeploymentState.READY
    scene.files_error, made = None, scene.brought
    CorruptBlob.objects.filter(pk=corrupt_blob.pk).update(state=CorruptBlobState.REPAIRED)
    events.publish(BlobRepaired(other))
    scene.pass_(2)
    row.refresh_from_db()
    assert (scene.brought, row.state) == (made + 1, DeploymentState.READY)


def test_a_deployment_that_lays_out_its_files_in_mid_repair_does_it_once_more(scene, blob) -> None:
    row = scene.deployment()

    def repaired() -> None:
        scene.meanwhile = None
        events.publish(BlobRepaired(blob))

    scene.meanwhile = repaired
    scene.pass_(2)
    row.refresh_from_db()
    assert (scene.brought, row.applied_generation) == (2, row.generation)
    assert status(scene).state == DeploymentState.READY


def test_a_deployment_that_is_to_go_lays_out_nothing(scene, blob) -> None:
    row = scene.deployment()
    scene.pass_(2)
    remove_deployment(actor=Actor.system("test"), name=row.name, reason="")
    fence = Deployment.objects.get().fence
    events.publish(BlobRepaired(blob))
    assert Deployment.objects.get().fence == fence


def test_a_log_with_bytes_that_no_database_keeps_is_kept_without_them(scene) -> None:
    scene.deployment()
    scene.pass_(1)
    scene.world.crash_with("chat-v1-0", "RuntimeError: \0\ud800 no")
    scene.pass_(3)
    assert "RuntimeError: \ufffd? no" in status(scene).log_tail


def test_a_cluster_that_does_not_answer_leaves_the_state_and_says_so(scene) -> None:
    scene.deployment()
    scene.pass_(1)
    scene.world.reachable = False
    scene.pass_(60)
    now = status(scene)
    assert (now.state, now.ready, now.is_stuck) == (DeploymentState.READY, 2, False)
    assert now.reason == "The cluster local does not answer: The fake is out of reach."
    assert len(selectors.endpoints("chat-v1").addresses) == 2
    scene.world.reachable = True
    scene.pass_(5)
    assert status(scene).reason == ""


def test_a_steady_deployment_is_looked_at_every_few_seconds_and_writes_no_worker_row(
    scene, django_assert_num_queries
) -> None:
    row = scene.deployment()
    scene.pass_(2)
    row.refresh_from_db()
    turn, due = row.turn, row.next_at
    scene.clock.at = due
    with django_assert_num_queries(9):
        # Claim 3; workers, cluster, machines and replacements for drains 4; settle 3 with its
        # transaction; the next claim 1.
        scene.worker().advance("clusters.deployment", row.pk)
    row.refresh_from_db()
    assert row.turn == turn
    assert row.next_at - due == timedelta(seconds=2.5)


def test_what_could_not_be_taken_away_is_not_gone_although_no_worker_is_seen(scene) -> None:
    row = scene.deployment(replicas=0)
    scene.pass_(1)
    scene.world.takes_orders = False
    remove_deployment(actor=SYSTEM, name=row.name, reason="aborted")
    scene.pass_(5)
    row.refresh_from_db()
    assert row.state == DeploymentState.REMOVING
    assert scene.world.spec(row.name) is not None
    scene.world.takes_orders = True
    scene.pass_(5)
    row.refresh_from_db()
    assert (row.state, scene.world.spec(row.name)) == (DeploymentState.REMOVED, None)


def test_a_wish_that_nobody_heard_is_told_again_although_as_many_workers_are_seen(scene) -> None:
    row = scene.deployment()
    scene.pass_(1)
    scene.world.takes_orders = False
    Deployment.objects.filter(pk=row.pk).update(settings={"batch": 8}, applied_generation=0)
    scene.pass_(5)
    row.refresh_from_db()
    assert "leader changed" in row.reason
    scene.world.takes_orders = True
    scene.pass_(5)
    row.refresh_from_db()
    applied = scene.world.spec(row.name)
    assert applied is not None
    assert (applied.settings, row.reason) == ({"batch": 8}, "")
