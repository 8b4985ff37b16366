"""Requests are answered in threads that stay; what is streamed ends with its client."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from django.core import signals
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.test import override_settings
from django.urls import path

from controlplane.handler import ThreadedASGIHandler

closed: list[str] = []
threads: list[str] = []


def plain(request: HttpRequest) -> HttpResponse:
    threads.append(threading.current_thread().name)
    return HttpResponse(request.headers["X-Name"].encode() + request.read())


def broken(request: HttpRequest) -> HttpResponse:
    raise RuntimeError("at fault")


def endless(request: HttpRequest) -> StreamingHttpResponse:
    async def ticks() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"tick"
                await asyncio.sleep(0.01)
        finally:
            closed.append("stream")

    return StreamingHttpResponse(ticks())


urlpatterns = [path("plain/", plain), path("broken/", broken), path("endless/", endless)]


@pytest.fixture(autouse=True)
def _alone() -> Iterator[None]:
    middleware = ["common.request_id.request_id_middleware", "django.middleware.common.CommonMiddleware"]
    closed.clear()
    threads.clear()
    with override_settings(ROOT_URLCONF=__name__, MIDDLEWARE=middleware, ALLOWED_HOSTS=["*"]):
        yield


async def asked(
    handler: ThreadedASGIHandler, name: str, *, body: bytes = b"", leaves_after: int = 0
) -> list[Any]:
    """Return the messages sent; a client that leaves does so after so many."""
    sent: list[Any] = []
    gone = asyncio.Event()
    messages = [{"type": "http.request", "body": body}]

    async def receive() -> dict[str, Any]:
        if messages:
            return messages.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)
        if len(sent) == leaves_after:
            gone.set()

    scope = {"type": "http", "method": "POST", "path": f"/{name}/", "query_string": b""}
    scope |= {"headers": [(b"x-name", b"ada:")], "server": ("testserver", 80)}
    await asyncio.wait_for(handler(scope, receive, send), 20)
    return sent


def test_many_at_once_are_answered_in_threads_of_the_pool_that_stay() -> None:
    async def play() -> list[Any]:
        handler = ThreadedASGIHandler()
        for _ in range(3):
            answers = await asyncio.gather(
                *(asked(handler, "plain", body=b"%d" % number) for number in range(5))
            )
        return answers

    answers = asyncio.run(play())
    assert [answer[1]["body"] for answer in answers] == [b"ada:%d" % number for number in range(5)]
    assert all(b"X-Request-ID" in dict(answer[0]["headers"]) for answer in answers)
    assert len(set(threads)) < len(threads) == 15
    assert all(name.startswith("request") for name in threads)


def test_what_fails_is_a_500_and_ends_its_request() -> None:
    ended: list[str] = []

    def note(**_: Any) -> None:
        ended.append(threading.current_thread().name)

    signals.request_finished.connect(note)
    try:
        answer = asyncio.run(asked(ThreadedASGIHandler(), "broken"))
    finally:
        signals.request_finished.disconnect(note)
    assert answer[0]["status"] == 500
    assert [name.startswith("request") for name in ended] == [True]


def test_a_stream_ends_when_its_client_is_gone() -> None:
    sent = asyncio.run(asked(ThreadedASGIHandler(), "endless", leaves_after=4))
    assert sent[1]["body"] == b"tick"
    assert closed == ["stream"]
