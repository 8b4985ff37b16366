"""The first page: what waits for me, what moves, what is in trouble, what to do first."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from accounts import actors
from accounts.states import Role
from clusters.models import Deployment, Node
from common.actor import Actor
from common.errors import Missing, NotAllowed
from common.live import PUBLIC
from controlplane.home.board import HomePage
from controlplane.home.consumers import HomeTopic
from controlplane.home.inbox import inbox
from models_registry.models import Check, Collection, Finding, HubSource, HubSync, RetentionRule, Version
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

    assert (task.is_approval, task.release, task.detail) == (True, release, "requested by someone")
    assert task.url == f"/releases/{release.pk}/#decision"
    viewer = person("vera", ours=Role.VIEWER)
    assert inbox(actors.of_user(viewer)) == []
    assert inbox(actors.of_user(person("eve", theirs=Role.ADMIN))) == []


def test_what_is_stuck_waits_oldest_first_with_its_reason(scene: Scene) -> None:
    now = timezone.now()
    Release.objects.filter(pk=scene.release.pk).update(
        state="stuck", stuck_at=now - timedelta(minutes=5), last_error="The disk is full."
    )
    Deployment.objects.filter(pk=scene.worker.deployment_id).update(
        stuck_at=now - timedelta(minutes=9), last_error="No ports left."
    )
    version = scene.version("importing")
    Version.objects.filter(pk=version.pk).update(
        stuck_at=now - timedelta(minutes=1), last_error="The directory is gone."
    )
    sync = scene.sync("fetching")
    HubSync.objects.filter(pk=sync.pk).update(
        stuck_at=now - timedelta(seconds=9), last_error="The hub is gone."
    )
    HubSource.objects.filter(pk=scene.hub_source.pk).update(stuck_at=now, last_error="The clock is gone.")

    tasks = inbox(actor_of(scene))

    assert [task.state for task in tasks] == ["stuck"] * 5
    assert [task.why for task in tasks] == [
        "No ports left.",
        "The disk is full.",
        "The directory is gone.",
        "The hub is gone.",
        "The clock is gone.",
    ]
    assert [task.url for task in tasks[2:]] == [
        f"/models/{scene.model.name}/importing/",
        f"/models/{scene.model.name}/+syncs/{sync.pk}/",
        f"/models/{scene.model.name}/+hub/",
    ]


def test_a_stuck_rule_waits_for_its_team_and_the_store_for_administrators(scene: Scene) -> None:
    now = timezone.now()
    RetentionRule.objects.filter(pk=scene.rule.pk).update(stuck_at=now, last_error="No answer.")
    stuck = {
        "asked_by_name": "ada",
        "grace_seconds": 0,
        "stuck_at": now,
        "last_error": "The disk is read-only.",
    }
    Collection.objects.create(**stuck)
    check = Check.objects.create(asked_by_name="ada", bytes_per_second=1, state="done")
    lost = {"sha256": "d" * 64, "size": 1, "detail": "Gone.", "state": "lost", "reason": "No source has it."}
    Finding.objects.create(found_by=check, **lost)

    assert [(task.why, task.url) for task in inbox(actor_of(scene))] == [
        ("No answer.", f"/models/{scene.model.name}/+retention/")
    ]
    found = inbox(actors.of_user(person("root", superuser=True)))
    assert {task.why for task in found} == {"No answer.", "The disk is read-only.", "No source has it."}
    assert {task.url for task in found if task.detail == "store"} == {"/models/+store/"}


def test_a_release_in_motion_stands_at_its_step(scene: Scene) -> None:
    _ = scene.release
    page = HomePage(actor_of(scene))

    (moving,) = page.motion

    assert (moving.release, moving.verdict, moving.observed_percent) == (scene.release, None, None)
    Release.objects.update(state="promoted")
    assert HomePage(actor_of(scene)).motion == []


def test_a_machine_in_trouble_says_which(scene: Scene) -> None:
    node = Node.objects.get(cluster=scene.cluster)
    assert HomePage(actor_of(scene)).nodes_in_trouble == []

    Node.objects.filter(pk=node.pk).update(state="unreachable")

    (found,) = HomePage(actor_of(scene)).nodes_in_trouble
    assert (found["cluster"], found["node"].name) == (scene.cluster.name, "box")
    assert found["words"] == "unreachable"


def test_who_begins_is_led_from_the_model_to_the_release(scene: Scene) -> None:
    def step() -> str:
        return HomePage(actor_of(scene)).next_step

    told = [step()]
    for make in ("model", "version", "service", "release"):
        made = getattr(scene, make)
        _ = made() if callable(made) else made
        told.append(step())

    assert told == ["model", "version", "service", "release", ""]


def test_only_who_may_write_services_is_offered_to(scene: Scene) -> None:
    assert HomePage(actor_of(scene)).may_write
    assert not HomePage(actors.of_user(person("vera", ours=Role.VIEWER))).may_write


def test_everyone_who_is_signed_in_may_follow_it(scene: Scene) -> None:
    assert HomeTopic().audience(actor_of(scene), "") == {PUBLIC}
    with pytest.raises(NotAllowed):
        HomeTopic().audience(Actor.system("test"), "")
    with pytest.raises(Missing):
        HomeTopic().audience(actor_of(scene), "1")
