"""One POST: to the judged address, within its time, and no further."""

import socket
import time
from contextlib import suppress

import pytest

from common.outbound.addresses import address_of
from common.webhooks.destination import AllowedHosts
from common.webhooks.sending import DeliveryResponse, post
from tests.webhooks.receiver import Receiver, Reply, talking

HERE = AllowedHosts.of(["127.0.0.1", "hooks.internal"])


def send(
    url: str, *, within_seconds: float = 2.0, allowed: AllowedHosts = HERE, **options
) -> DeliveryResponse:
    return post(
        url, body=b'{"a":1}', headers={"webhook-id": "msg_1"}, allowed=allowed,
        within_seconds=within_seconds, **options,
    )  # fmt: skip


def test_what_is_sent_arrives_and_the_answer_is_told(receiver: Receiver) -> None:
    answer = send(receiver.url)
    assert (answer.status, answer.body, answer.error) == (200, "thanks", "")
    assert receiver.received[0].path == "/hook?from=slipway"
    assert receiver.received[0].body == b'{"a":1}'
    assert receiver.received[0].headers["webhook-id"] == "msg_1"


def test_a_name_is_asked_for_once_and_the_connection_goes_where_it_led_then(receiver: Receiver) -> None:
    answers = iter([[address_of("127.0.0.1")]])
    answer = send(f"http://hooks.internal:{receiver.port}/x", resolve=lambda host, port: next(answers))
    assert (answer.status, answer.error) == (200, "")
    assert receiver.received[0].headers["host"] == f"hooks.internal:{receiver.port}"


def test_nothing_reaches_what_is_not_allowed(receiver: Receiver) -> None:
    answer = send(receiver.url, allowed=AllowedHosts())
    assert answer.status is None
    assert "not an address of the public internet" in answer.error
    assert receiver.received == []


def test_a_redirect_is_not_followed_and_says_so(receiver: Receiver) -> None:
    receiver.reply = Reply(302, {"location": f"{receiver.url}&again"})
    answer = send(receiver.url)
    assert answer.status == 302
    assert "give the final address" in answer.error
    assert len(receiver.received) == 1


def test_only_the_beginning_of_a_long_answer_is_read(receiver: Receiver) -> None:
    receiver.reply = Reply(500, {"retry-after": "7"}, b"x" * 5_000_000)
    answer = send(receiver.url)
    assert (answer.status, len(answer.body), answer.retry_after) == (500, 1024, "7")


def test_an_answer_that_comes_too_late_is_none(receiver: Receiver) -> None:
    receiver.reply = Reply(after_seconds=3.0)
    answer = send(receiver.url, within_seconds=0.2)
    assert answer.status is None
    assert answer.error == "No answer within 0.2 s."


@pytest.mark.parametrize("preface", [b"HTTP/1.1 200 OK\r\nx: ", b"HTTP/1.1 500 No\r\n\r\n", b""])
def test_a_dripping_answer_ends_at_the_time_limit(preface: bytes) -> None:
    def drip(connection: socket.socket) -> None:
        connection.recv(65_536)
        connection.sendall(preface)
        with suppress(OSError):
            while True:
                time.sleep(0.05)
                connection.sendall(b"x")

    with talking(drip) as port:
        began = time.monotonic()
        answer = send(f"http://127.0.0.1:{port}/", within_seconds=0.4)
    assert time.monotonic() - began < 300
    assert answer.error


def test_a_handshake_that_never_ends_ends_at_the_time_limit() -> None:
    def say_nothing(connection: socket.socket) -> None:
        while connection.recv(65_536):
            continue

    with talking(say_nothing) as port:
        answer = send(f"https://127.0.0.1:{port}/", within_seconds=0.4)
    assert (answer.status, answer.error) == (None, "No answer within 0.4 s.")


def test_a_success_stays_one_when_its_body_breaks_off() -> None:
    def break_off(connection: socket.socket) -> None:
        connection.recv(65_536)
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf")

    with talking(break_off) as port:
        assert send(f"http://127.0.0.1:{port}/").error == ""


@pytest.mark.parametrize(
    "said", [b"", b"SSH-2.0-OpenSSH_9\r\n", b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 50_000]
)
def test_what_is_no_web_server_is_a_failure_with_a_sentence(said: bytes) -> None:
    def say(connection: socket.socket) -> None:
        connection.recv(65_536)
        connection.sendall(said)

    with talking(say) as port:
        answer = send(f"http://127.0.0.1:{port}/")
    assert answer.status is None
    assert "does not answer as it should" in answer.error


def test_a_closed_port_is_a_failure_with_a_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as once:
        port = once.getsockname()[1]
    assert "refused" in send(f"http://127.0.0.1:{port}/").error
