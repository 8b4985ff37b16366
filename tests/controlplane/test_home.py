"""The first page: what waits for me, what moves, what is in trouble, what to do first."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from accounts import actors
from accounts.states import Role
from clusters.home import FleetCard
from clusters.models import Deployment, Node
from common.actor import Actor
from common.errors import Missing, NotAllowed
from common.live.board import PUBLIC
from common.reconcile import Reconciled
from controlplane.home.consumers import HomeTopic
from controlplane.home.inbox import inbox
from model_store.models import Check, Collection, CorruptBlob
from releases.home import ReleasesCard
from releases.models import Release
from tests.accounts.rights_matrix import Scene
from tests.cast import person


@pytest.fixture
def scene(db: None, tmp_path: Path, settings: Any) -> Scene:
    settings.SLIPWAY_IMPORT_ROOTS = (tmp_path,)
    return Scene.of_role(Role.ADMIN)


def actor_of(scene: Scene) -> Actor:
    return actors.of_user(scene.user)


def test_an_approval_waits_for_who_may_give_it(scene: Scene) -> None:
    release = scene.release

    (task,) = inbox(actor_of(scene))

    assert (task.is_decision, task.about, task.notes[0]) == (True, release, "requested by someone")
    assert task.url == f"/releases/{release.pk}/#decision"
    viewer = person("vera", ours=Role.VIEWER)
    assert inbox(actors.of_user(viewer)) == []
    assert inbox(actors.of_user(person("eve", theirs=Role.ADMIN))) == []


def stick(row: Reconciled, why: str, *, minutes: float) -> None:
    since = timezone.now() - timedelta(minutes=minutes)
    type(row)._default_manager.filter(pk=row.pk).update(
        stuck_at=since, failed_since=since, last_error=why, attempts=5
    )


def test_what_is_stuck_waits_oldest_first_with_its_reason(scene: Scene) -> None:
    Release.objects.filter(pk=scene.release.pk).update(state="stuck")
    stick(scene.release, "The disk is full.", minutes=5)
    stick(scene.worker.deployment, "No ports left.", minutes=9)
    stick(scene.version("importing"), "The directory is gone.", minutes=1)
    sync = scene.sync("fetching")
    stick(sync, "The hub is gone.", minutes=0.2)
    stick(scene.hub_source, "The clock is gone.", minutes=0.1)

    tasks = inbox(actor_of(scene))

    assert [task.badge for task in tasks] == [("work", "stuck")] * 5
    assert [task.why for task in tasks] == [
        "No ports left.",
        "The disk is full.",
        "The directory is gone.",
        "The hub is gone.",
        "The clock is gone.",
    ]
    assert [task.url for task in tasks[1:]] == [
        f"/releases/{scene.release.pk}/",
        f"/models/{scene.model.name}/importing/",
        f"/models/{scene.model.name}/+syncs/{sync.pk}/",
        f"/models/{scene.model.name}/+hub/{scene.hub_source.pk}/",
    ]
    assert tasks[3].title == f"Sync of {sync.source}"
    assert all(task.buttons and task.about.may_retry for task in tasks)
    viewer = person("vera", ours=Role.VIEWER)
    assert inbox(actors.of_user(viewer)) == []


def test_what_fails_for_minutes_is_told_before_it_is_stuck(scene: Scene) -> None:
    deployment = scene.worker.deployment
    rows = Deployment.objects.filter(pk=deployment.pk)
    rows.update(failed_since=timezone.now() - timedelta(seconds=90), last_error="No answer.")
    assert inbox(actor_of(scene)) == []
    rows.update(failed_since=timezone.now() - timedelta(seconds=130))
    (task,) = inbox(actor_of(scene))
    assert (task.badge[1], task.why, task.url) == (
        "failing",
        "No answer.",
        f"/fleet/deployments/{deployment}/",
    )
    assert not task.buttons


def test_a_stuck_rule_waits_for_its_team_and_the_store_for_administrators(scene: Scene) -> None:
    stick(scene.rule, "No answer.", minutes=1)
    stick(Collection.objects.create(asked_by_name="ada", grace_seconds=0), "It is read-only.", minutes=1)
    check = Check.objects.create(asked_by_name="ada", bytes_per_second=1, state="done")
    lost = {"sha256": "d" * 64, "size": 1, "detail": "Gone.", "state": "lost", "reason": "No source has it."}
    CorruptBlob.objects.create(found_by=check, **lost)

    assert [(task.why, task.url) for task in inbox(actor_of(scene))] == [
        ("No answer.", f"/models/{scene.model.name}/+retention/")
    ]
    found = inbox(actors.of_user(person("root", superuser=True)))
    assert {task.why for task in found} == {"No answer.", "It is read-only.", "No source has it."}
    assert [task.url for task in found if task.why != "No answer."] == ["/models/+store/"] * 2


def test_the_inbox_costs_the_same_whatever_the_number_of_kinds_and_rows(
    scene: Scene, django_assert_num_queries: Any
) -> None:
    actor = actor_of(scene)
    # Rights, approvals (2), services, patches, relays, incidents (2), plans of capacity and graphs, late
    # queues, alerts, all troubles.
    with django_assert_num_queries(13):
        assert inbox(actor) == []
    stick(scene.hub_source, "No answer.", minutes=3)
    stick(scene.sync("fetching"), "No answer.", minutes=1)
    with django_assert_num_queries(15):  # the sources, the syncs, what is in doubt; the rights are known
        assert len(inbox(actor)) == 2
    for state in ("importing", "failed", "refused"):
        stick(scene.version(state), "No answer.", minutes=1)
    with django_assert_num_queries(16):  # the versions
        assert len(inbox(actor)) == 5


def test_a_release_in_motion_stands_at_its_step(scene: Scene) -> None:
    _ = scene.release
    (moving,) = ReleasesCard(actor_of(scene)).active

    assert (moving.release, moving.verdict, moving.observed_percent) == (scene.release, None, None)
    Release.objects.update(state="promoted")
    assert ReleasesCard(actor_of(scene)).active == []


def test_a_machine_in_trouble_says_which(scene: Scene) -> None:
    node = Node.objects.get(cluster=scene.cluster)
    assert FleetCard(actor_of(scene)).nodes_in_trouble == []

    Node.objects.filter(pk=node.pk).update(state="unknown")

    (found,) = FleetCard(actor_of(scene)).nodes_in_trouble
    assert (found["cluster"], found["node"].name) == (scene.cluster.name, "box")
    assert found["words"] == "unknown"


def test_who_begins_is_led_from_the_model_to_the_release(scene: Scene) -> None:
    def step() -> str:
        return ReleasesCard(actor_of(scene)).next_step

    told = [step()]
    for make in ("model", "version", "service", "release"):
        made = getattr(scene, make)
        _ = made() if callable(made) else made
        told.append(step())

    assert told == ["model", "version", "service", "release", ""]


def test_only_who_may_write_services_is_offered_to(scene: Scene) -> None:
    assert ReleasesCard(actor_of(scene)).may_write
    assert not ReleasesCard(actors.of_user(person("vera", ours=Role.VIEWER))).may_write


def test_everyone_who_is_signed_in_may_follow_it(scene: Scene) -> None:
    assert HomeTopic().audience(actor_of(scene), "") == {PUBLIC}
    with pytest.raises(NotAllowed):
        HomeTopic().audience(Actor.system("test"), "")
    with pytest.raises(Missing):
        HomeTopic().audience(actor_of(scene), "1")
