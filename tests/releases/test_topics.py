"""Who may follow a release or a service live, and what they then read."""

from typing import Any

import pytest
from asgiref.sync import async_to_sync

from accounts import actors
from common.actor import Actor
from common.errors import Missing, NotAllowed
from common.live.board import PUBLIC
from common.live.topics import Topic
from gateway.models import Route
from gateway.traffic import CountsReading
from releases import consumers
from releases.consumers import ReleasesTopic, ReleaseTopic, ServiceTopic
from releases.models import Release
from releases.sampling import Sampler
from releases.selectors.releases import verdict_of
from releases.states import ReleaseState
from tests.cast import person
from tests.releases.world import Scene

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.any_database]


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.setattr(consumers, "sampler", Sampler())
    return Scene(monkeypatch)


@pytest.fixture
def stranger(db: None) -> Actor:
    return actors.of_user(person("eve", another="admin"))


def read(topic: Topic, key: object) -> dict[str, Any]:
    shards = async_to_sync(topic.read)(str(key))
    assert set(shards) == {PUBLIC}
    return dict(shards[PUBLIC])


def test_whoever_may_read_in_the_team_may_follow_its_release_and_service(
    scene: Scene, stranger: Actor
) -> None:
    release = scene.start()
    for topic, key in ((ReleaseTopic(), release.pk), (ServiceTopic(), scene.service.pk)):
        assert topic.audience(scene.approver, str(key)) == {PUBLIC}
        with pytest.raises(Missing):
            topic.audience(stranger, str(key))


@pytest.mark.parametrize("topic", [ReleaseTopic(), ServiceTopic()])
@pytest.mark.parametrize("key", ["", "4711", "one", "-1", "1;2"])
def test_what_is_no_id_of_anything_is_missing(scene: Scene, topic: Topic, key: str) -> None:
    with pytest.raises(Missing):
        topic.audience(scene.requester, key)


def test_the_list_is_for_whoever_may_read_anywhere_and_says_only_look_again(
    scene: Scene, stranger: Actor
) -> None:
    assert ReleasesTopic().audience(stranger, "") == {PUBLIC}
    with pytest.raises(Missing):
        ReleasesTopic().audience(stranger, "1")
    with pytest.raises(NotAllowed):
        ReleasesTopic().audience(actors.of_user(person("nobody")), "")
    assert read(ReleasesTopic(), "") == {}


def test_a_release_in_motion_shows_its_share_its_judge_and_both_sides(scene: Scene) -> None:
    release = scene.start()
    scene.run_until_state(ReleaseState.WAITING_APPROVAL)
    read(ReleaseTopic(), release.pk)

    values = read(ReleaseTopic(), release.pk)

    assert 20 < values["weights.candidate"] < 40
    assert values["weights.stable"] == pytest.approx(100 - values["weights.candidate"])
    judged = verdict_of(Release.objects.get(pk=release.pk))
    assert judged is not None
    assert values["judge.decision"] == judged.decision
    assert values["judge.errors.candidate.requests"] > 0
    assert (values["traffic"], values["traffic.problem"]) == ("live", "")
    assert {"stable.rate", "candidate.rate", "candidate.in_flight"} <= set(values)


def test_a_release_that_has_ended_asks_the_gateway_nothing(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Release.objects.get(service=scene.service)
    asked: list[str] = []

    def note(service: str) -> CountsReading:
        asked.append(service)
        return CountsReading({})

    monkeypatch.setattr(consumers, "sampler", Sampler(note))

    values = read(ReleaseTopic(), first.pk)

    assert asked == []
    assert "traffic" not in values
    assert "weights.candidate" in values


def test_a_service_at_rest_shows_its_stable_side_alone(scene: Scene) -> None:
    values = read(ServiceTopic(), scene.service.pk)

    assert values["traffic"] == "live"
    assert "stable.rate" in values
    assert not any(name.startswith(("candidate.", "weights.")) for name in values)


def test_a_gateway_without_a_route_is_told_in_words(scene: Scene) -> None:
    Route.objects.all().delete()

    values = read(ServiceTopic(), scene.service.pk)

    assert values["traffic"] == "problem"
    assert values["traffic.problem"] == "The gateway has no route to this service yet."
