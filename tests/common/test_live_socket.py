"""What a page's socket sees, refuses and survives."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from common.actor import Actor
from common.errors import NotAllowed
from common.live import consumer, topics
from common.live.board import PUBLIC
from common.live.consumer import LiveConsumer
from common.live.hub import LiveHub, current_hub
from common.live.redis import breaker
from common.live.topics import Topic
from common.live.touch import _Unheard, touch
from tests.patience import eventually
from tests.sockets import Pass, Socket

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.stack]

SECRET_TEAM = 7


class Weather(Topic):
    """Keyed by town; `ann` may not see the teams' part."""

    kind = "weather"
    min_gap_seconds = 0.02

    def __init__(self) -> None:
        self.degrees = 20
        self.reads = 0
        self.audiences = {"ann": frozenset({PUBLIC})}
        self.forbidden: set[str] = set()

    def audience(self, actor: Actor, key: str) -> frozenset[int] | None:
        if key in self.forbidden:
            raise NotAllowed("You may not know the weather there.")
        return self.audiences[actor.name]

    async def read(self, key: str) -> dict[int, dict[str, object]]:
        self.reads += 1
        return {PUBLIC: {"degrees": self.degrees}, SECRET_TEAM: {"mood": "grim"}}


@pytest.fixture
def weather(monkeypatch) -> Weather:
    topic = Weather()
    monkeypatch.setitem(topics._topics, "weather", topic)
    return topic


@pytest_asyncio.fixture
async def hub(valkey) -> AsyncIterator[LiveHub]:
    hub = current_hub()
    hub.start()
    await asyncio.to_thread(eventually, lambda: hub.redis_up)
    yield hub
    await hub.aclose()


def page(credentials: Pass | None = None, **scope: object) -> Socket:
    return Socket(LiveConsumer.as_asgi(), {"credentials": credentials or Pass(), **scope})


def town(key: str, credentials: Pass | None = None) -> Socket:
    scope = {"credentials": credentials or Pass(), "url_route": {"kwargs": {"key": key}}}
    return Socket(LiveConsumer.as_asgi(topic="weather"), scope)


async def tell(key: str) -> None:
    """Touch the key, as a service does in any process after its commit."""
    await asyncio.to_thread(touch, "weather", key)


async def test_the_first_frame_is_a_snapshot_of_what_the_actor_may_see(hub, weather) -> None:
    async with town("oslo") as socket:
        assert await socket.frame() == {
            "type": "snapshot",
            "topic": "weather:oslo",
            "seq": 1,
            "values": {"degrees": 20},
        }


async def test_a_touch_in_another_process_brings_the_change_and_then_the_word_to_look(hub, weather) -> None:
    async with town("oslo") as socket:
        await socket.frame()
        weather.degrees = 21
        await tell("oslo")
        delta = await socket.frame()
        assert (delta["from"], delta["seq"], delta["values"]) == (1, 2, {"degrees": 21})
        assert await socket.frame() == {"type": "look", "topic": "weather:oslo"}
        await tell("bergen")
        assert await socket.is_silent(0.2)


async def test_a_hundred_touches_at_once_are_few_reads_and_few_frames(hub, weather) -> None:
    async with town("oslo") as socket:
        await socket.frame()
        for degrees in range(100):
            weather.degrees = degrees
            await tell("oslo")
        while (await socket.frame_of("delta"))["values"] != {"degrees": 99}:
            pass
        assert weather.reads < 50


async def test_one_read_serves_all_sockets(hub, weather) -> None:
    async with town("oslo") as one, town("oslo") as two:
        await one.frame()
        await two.frame()
        assert weather.reads == 1


async def test_a_page_follows_and_leaves_topics_on_one_socket(hub, weather) -> None:
    async with page() as socket:
        socket.say("subscribe", "weather:oslo", "weather:bergen")
        names = {(await socket.frame())["topic"], (await socket.frame())["topic"]}
        assert names == {"weather:oslo", "weather:bergen"}
        socket.say("unsubscribe", "weather:oslo")
        # Answered after what was said before.
        socket.say("subscribe", "weather:turin")
        assert (await socket.frame())["topic"] == "weather:turin"
        await tell("oslo")
        await tell("bergen")
        assert (await socket.frame())["topic"] == "weather:bergen"


async def test_a_page_may_ask_for_everything_again(hub, weather) -> None:
    async with page() as socket:
        socket.say("subscribe", "weather:oslo")
        first = await socket.frame()
        socket.say("snapshot", "weather:oslo")
        assert await socket.frame() == first


async def test_a_topic_that_is_forbidden_or_unknown_is_refused_and_the_rest_goes_on(hub, weather) -> None:
    weather.forbidden.add("oslo")
    async with page() as socket:
        socket.say("subscribe", "weather:oslo", "tides:oslo", "weather:bergen")
        frames = [await socket.frame() for _ in range(3)]
        assert {frame["topic"]: frame["type"] for frame in frames} == {
            "weather:oslo": "refused",
            "tides:oslo": "refused",
            "weather:bergen": "snapshot",
        }


async def test_a_socket_of_one_topic_is_closed_where_that_is_forbidden(hub, weather) -> None:
    weather.forbidden.add("oslo")
    async with town("oslo") as socket:
        assert await socket.ended() == consumer.RIGHT_GONE


async def test_nobody_is_closed_as_signed_out(hub, weather) -> None:
    credentials = Pass()
    credentials.sign_out()
    async with town("oslo", credentials) as socket:
        assert await socket.ended() == consumer.SIGNED_OUT


async def test_a_right_that_is_gone_closes_the_socket(hub, weather, monkeypatch) -> None:
    monkeypatch.setattr(consumer, "CHECK_SECONDS", 0.2)
    async with town("oslo") as socket:
        await socket.frame()
        weather.forbidden.add("oslo")
        assert await socket.ended() == consumer.RIGHT_GONE


async def test_a_revoked_token_closes_the_socket(hub, weather, monkeypatch) -> None:
    monkeypatch.setattr(consumer, "CHECK_SECONDS", 0.2)
    credentials = Pass()
    async with page(credentials) as socket:
        socket.say("subscribe", "weather:oslo")
        await socket.frame()
        credentials.revoke()
        assert await socket.ended() == consumer.RIGHT_GONE


async def test_a_page_hears_that_one_of_its_topics_is_refused_from_now_on(hub, weather, monkeypatch) -> None:
    monkeypatch.setattr(consumer, "CHECK_SECONDS", 0.2)
    async with page() as socket:
        socket.say("subscribe", "weather:oslo", "weather:bergen")
        await socket.frame()
        await socket.frame()
        weather.forbidden.add("oslo")
        assert (await socket.frame_of("refused"))["topic"] == "weather:oslo"
        await tell("bergen")
        assert (await socket.frame_of("look"))["topic"] == "weather:bergen"


async def test_a_wider_right_brings_a_new_snapshot(hub, weather, monkeypatch) -> None:
    monkeypatch.setattr(consumer, "CHECK_SECONDS", 0.2)
    async with town("oslo") as socket:
        await socket.frame()
        weather.audiences["ann"] = frozenset({PUBLIC, SECRET_TEAM})
        assert (await socket.frame_of("snapshot"))["values"] == {"degrees": 20, "mood": "grim"}


async def test_a_quiet_socket_hears_a_beat(hub, weather, monkeypatch) -> None:
    monkeypatch.setattr(consumer, "CHECK_SECONDS", 0.1)
    async with page() as socket:
        assert await socket.frame() == {"type": "beat"}


async def test_a_slow_browser_skips_frames_and_holds_up_nobody(hub, weather) -> None:
    async with town("oslo") as slow, town("oslo") as quick:
        await slow.frame()
        await quick.frame()
        slow.takes.clear()
        for degrees in range(1, 11):
            weather.degrees = degrees
            await tell("oslo")
            assert (await quick.frame_of("look"))["topic"] == "weather:oslo"
        slow.takes.set()
        values = {}
        deltas = 0
        while values.get("degrees") != 10:
            values |= (await slow.frame_of("delta"))["values"]
            deltas += 1
        assert deltas <= 2


async def test_a_browser_that_takes_nothing_is_given_up(hub, weather, monkeypatch) -> None:
    monkeypatch.setattr(consumer, "STALLED_SECONDS", 0.2)
    async with town("oslo") as socket:
        await socket.frame()
        socket.takes.clear()
        await tell("oslo")
        assert await socket.ended() is None


@pytest.mark.parametrize(
    "text", ["", "[]", '{"type": "subscribe"}', '"x" * 3', "\x00", "[" * 4000, "x" * 9000]
)
async def test_nonsense_closes_the_socket(hub, weather, text: str) -> None:
    async with page() as socket:
        socket.say_text(text)
        assert await socket.ended() == consumer.ABUSE


async def test_a_flood_of_wishes_closes_the_socket(hub, weather) -> None:
    async with page() as socket:
        for _ in range(consumer.MESSAGES_BURST + 5):
            socket.say("unsubscribe", "weather:oslo")
        assert await socket.ended() == consumer.ABUSE


async def test_a_socket_follows_a_limited_number_of_topics(hub, weather) -> None:
    async with page() as socket:
        socket.say("subscribe", *(f"weather:{number}" for number in range(consumer.MAX_TOPICS + 1)))
        assert "at most" in (await socket.frame_of("refused"))["detail"]


async def test_a_full_process_asks_to_try_later(hub, weather, monkeypatch) -> None:
    monkeypatch.setattr(consumer, "MAX_SOCKETS", 1)
    async with town("oslo") as first:
        await first.frame()
        async with town("oslo") as second:
            assert await second.ended() == consumer.TRY_LATER


async def test_nothing_is_kept_when_the_last_follower_leaves(hub, weather) -> None:
    async with town("oslo") as socket:
        await socket.frame()
    assert not hub._followed
    assert not hub.sockets


OURS = [(b"host", b"testserver:8000")]


@pytest.mark.parametrize(
    ("origin", "accepted"),
    [
        (b"http://testserver:8000", True),
        (b"http://TESTSERVER:8000", True),
        (b"http://console.example.org", True),
        (b"http://testserver:9000", False),
        (b"http://evil.example.org", False),
        (b"null", False),
        (b"http://testserver:8000.evil.example.org", False),
        (None, False),
    ],
)
async def test_a_cookie_counts_only_on_our_own_pages(hub, weather, settings, origin, accepted) -> None:
    settings.CSRF_TRUSTED_ORIGINS = ["http://console.example.org"]
    headers = OURS if origin is None else [*OURS, (b"origin", origin)]
    async with page(Pass(ambient=True), headers=headers) as socket:
        if accepted:
            await asyncio.to_thread(eventually, lambda: socket.is_accepted)
        else:
            await socket.ended()
            assert not socket.is_accepted


async def test_a_foreign_host_name_is_not_our_page(hub, weather) -> None:
    headers = [(b"host", b"rebound.example.org"), (b"origin", b"http://rebound.example.org")]
    async with page(Pass(ambient=True), headers=headers) as socket:
        await socket.ended()
        assert not socket.is_accepted


async def test_pages_stay_open_while_redis_is_down_and_look_again_when_it_is_back(
    hub, weather, valkey
) -> None:
    async with town("oslo") as socket:
        await socket.frame()
        valkey.stop()
        assert await socket.frame() == {"type": "down", "part": "redis"}
        await tell("oslo")
        weather.degrees = 30
        valkey.start()
        kinds = {}
        while set(kinds) != {"delta", "look", "up"}:
            frame = await socket.frame(10)
            kinds[frame["type"]] = frame
        assert kinds["delta"]["values"] == {"degrees": 30}


async def test_a_page_that_opens_while_redis_is_down_shows_what_is_known(settings, weather) -> None:
    settings.REDIS_URL = "unix:///nowhere/valkey.sock"
    try:
        async with town("oslo") as socket:
            frames = [await socket.frame(), await socket.frame()]
            assert [frame["type"] for frame in frames] == ["snapshot", "down"]
    finally:
        await current_hub().aclose()


def test_a_touch_never_raises_and_leaves_a_dead_redis_alone(settings, caplog, monkeypatch) -> None:
    monkeypatch.setattr("common.live.touch.SILENCE_SECONDS", 3600.0)
    monkeypatch.setattr("common.live.touch._unheard", _Unheard())
    breaker.reset()
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    for _ in range(3):
        touch("release", 12)
    assert len([line for line in caplog.messages if "release:12" in line]) == 1
    breaker.reset()


async def test_what_redis_did_not_take_is_said_again_when_it_answers(hub, weather, monkeypatch) -> None:
    monkeypatch.setattr("common.live.touch.SILENCE_SECONDS", 0.05)
    async with town("oslo") as socket:
        await socket.frame()
        breaker.trip()
        await tell("oslo")
        assert await socket.is_silent(0.3)
        breaker.reset()
        assert await socket.frame_of("look") == {"type": "look", "topic": "weather:oslo"}


async def test_a_page_that_comes_after_a_change_looks_again_at_once(hub, weather) -> None:
    await tell("oslo")
    async with page() as socket:
        await asyncio.sleep(0.05)
        socket.say("subscribe", "weather:oslo", age=1.0)
        assert (await socket.frame())["type"] == "snapshot"
        assert await socket.frame() == {"type": "look", "topic": "weather:oslo"}
        socket.say("subscribe", "weather:bergen", age=0.001)
        assert (await socket.frame())["type"] == "snapshot"
        assert await socket.is_silent(0.2)
