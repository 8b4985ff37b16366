"""Server-sent events: nothing missed on reconnecting, heartbeats, an end when the right is gone."""

import asyncio
import time

import pytest
from django.test import RequestFactory

from common.api.streams import ServerEvent, events_response

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.any_database]


class Story:
    """Rows that are told one after another; `grow` adds what comes later."""

    def __init__(self, length: int, *, ends: bool = True) -> None:
        self.length = length
        self.ends = ends
        self.reads: list[str] = []

    def read(self, after: str) -> list[ServerEvent]:
        self.reads.append(after)
        first = int(after or 0) + 1
        return [
            ServerEvent(str(n), "moved", {"n": n, "text": "a\nb"}, last=self.ends and n == self.length)
            for n in range(first, self.length + 1)
        ]


def told(
    story: Story, *, last_event_id: str = "", seconds: float = 5.0, may_go_on=lambda: True, **timing: float
):
    request = RequestFactory().get("/", headers={"Last-Event-ID": last_event_id} if last_event_id else {})
    timing = {"poll_s": 0.01, "heartbeat_s": 60.0, "recheck_s": 60.0} | timing
    response = events_response(request, read=story.read, may_go_on=may_go_on, **timing)
    chunks: list[str] = []

    async def listen() -> None:
        async for chunk in response.streaming_content:
            chunks.append(chunk.decode())  # noqa: PERF401 (what was heard so far is the point)

    async def for_a_while() -> bool:
        try:
            await asyncio.wait_for(listen(), seconds)
        except TimeoutError:
            return False
        return True

    ended = asyncio.run(for_a_while())
    return response, chunks, ended


def test_events_come_in_order_and_the_last_one_ends_the_stream():
    response, chunks, ended = told(Story(3))
    assert ended
    assert response["Content-Type"] == "text/event-stream"
    assert response["Cache-Control"] == "no-store"
    assert chunks[1] == 'id: 1\nevent: moved\ndata: {"n":1,"text":"a\\nb"}\n\n'
    assert [chunk.split("\n")[0] for chunk in chunks[1:]] == ["id: 1", "id: 2", "id: 3"]


def test_who_comes_back_gets_what_came_after():
    _, chunks, ended = told(Story(5), last_event_id="3")
    assert ended
    assert [chunk.split("\n")[0] for chunk in chunks[1:]] == ["id: 4", "id: 5"]


def test_what_happens_later_is_told_when_it_happens():
    story = Story(1, ends=False)

    def grow_after_the_third_look() -> bool:
        if len(story.reads) >= 3:
            story.length, story.ends = 2, True
        return True

    _, chunks, ended = told(story, may_go_on=grow_after_the_third_look, recheck_s=0.0)
    assert ended
    assert [chunk.split("\n")[0] for chunk in chunks[1:]] == ["id: 1", "id: 2"]
    assert story.reads[:3] == ["", "1", "1"]


def test_silence_is_filled_with_heartbeats():
    _, chunks, ended = told(Story(0), seconds=0.5, heartbeat_s=0.05)
    assert not ended
    assert chunks.count(": still here\n\n") >= 3


def test_the_stream_ends_soon_after_the_right_is_gone():
    gone_at = time.monotonic() + 0.2
    begun = time.monotonic()
    _, chunks, ended = told(
        Story(0), may_go_on=lambda: time.monotonic() < gone_at, recheck_s=0.05, heartbeat_s=60
    )
    assert ended
    assert chunks[-1].startswith("event: forbidden")
    assert 0.2 <= time.monotonic() - begun < 30


def test_a_client_that_leaves_stops_the_reading():
    story = Story(0)
    told(story, seconds=0.2)
    count = len(story.reads)
    time.sleep(0.1)
    assert len(story.reads) == count
