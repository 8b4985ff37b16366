"""Versions that a hub has brought are released, in the name of whoever asked for that."""

import pytest

from accounts.models import Membership
from common.errors import Invalid, NotAllowed
from hubs.auto_release import auto_release
from hubs.models import HubSource
from hubs.services.syncs import change_hub_source, create_hub_source, trigger_release
from models_registry.models import Model, Version
from releases.models import Release
from releases.plans.builtin import builtin_plans
from tests.releases.world import Scene

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]


@pytest.fixture
def source(scene: Scene) -> HubSource:
    return create_hub_source(
        actor=scene.requester,
        model=scene.v2.model,
        repo_id="acme/story",
        release_to=scene.name,
        release_plan="swift",
    )


@pytest.fixture
def brought(scene: Scene) -> Version:
    scene.v2.source = {"commit": "a" * 40}
    return scene.v2


def test_the_plans_of_the_team_and_the_built_in_ones_are_offered(scene) -> None:
    assert auto_release().plans(scene.requester, scene.v2.model) == sorted({*builtin_plans(), "swift"})
    assert auto_release().plans(scene.requester, Model(pk=0)) == sorted(builtin_plans())


def test_a_version_goes_on_by_a_release_of_whoever_asked_for_it(scene, source, brought) -> None:
    told = trigger_release(source, brought)
    release = Release.objects.get(version=brought)
    assert told == f"It goes on by release {release.pk} of {scene.name}."
    assert (release.requester, release.plan_name) == ("ada", "swift")
    assert release.reason == "New commit aaaaaaaaaaaa of acme/story@main."


def test_a_release_that_cannot_be_is_told_and_the_version_stays(scene, source, brought) -> None:
    scene.start()
    assert trigger_release(source, brought).startswith(f"It was not released to {scene.name}: ")
    assert Release.objects.filter(version=brought).count() == 1


def test_whoever_lost_the_right_releases_nothing_any_more(scene, source, brought) -> None:
    Membership.objects.filter(user=scene.requester.user_id).update(role="viewer")
    source = HubSource.objects.get(pk=source.pk)
    assert "It was not released" in trigger_release(source, brought)
    assert not Release.objects.filter(version=brought).exists()


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"release_to": "nowhere"}, "release_to"),
        ({"release_plan": "no-such-plan"}, "release_plan"),
    ],
)
def test_only_services_and_plans_that_are_there_are_accepted(scene, source, given, field) -> None:
    with pytest.raises(Invalid) as refusal:
        change_hub_source(actor=scene.requester, source=source, **given)
    assert set(refusal.value.fields) == {field}


def test_who_may_not_start_releases_cannot_have_them_started(scene, source) -> None:
    viewer = scene._person("vic", "viewer")
    assert list(auto_release().services(viewer, scene.v2.model)) == []
    assert list(auto_release().services(scene.requester, scene.v2.model)) == [scene.name]
    with pytest.raises(NotAllowed):
        auto_release().check(viewer, scene.v2.model, service=scene.name, plan="")


def test_a_change_of_something_else_leaves_the_releases_in_their_owners_name(scene, source) -> None:
    other = scene._person("cy", "developer")
    change_hub_source(
        actor=other, source=source, ignore_patterns=["*.bin"], release_to=scene.name, release_plan="swift"
    )
    assert HubSource.objects.get().released_by.username == "ada"
    change_hub_source(actor=other, source=source, release_plan="")
    assert HubSource.objects.get().released_by.username == "cy"
