"""Events as people read them: in the formats of chats and paging services, by e-mail, in digests, after quiet
hours."""

import socket
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email import message_from_bytes, policy
from typing import Any

import orjson
import pytest
from django.utils import timezone

from accounts.messages import message_of
from accounts.models import WebhookDelivery, WebhookEndpoint, WebhookEvent
from accounts.services.webhooks import change_webhook, create_webhook
from common.errors import Invalid
from common.webhooks.schedule import first_try_at
from tests.cast import SYSTEM, api, person, team
from tests.crash.harness import Clock
from tests.webhooks.receiver import Receiver, Reply, talking
from tests.webhooks.test_deliveries import deliver, happen

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def clock() -> Clock:
    return Clock(timezone.now())


PLACES: dict[str, tuple[Callable[[Any], str], Callable[[Any], str]]] = {
    "slack": (
        lambda body: body["attachments"][0]["title"],
        lambda body: body["attachments"][0]["title_link"],
    ),
    "feishu": (
        lambda body: body["card"]["header"]["title"]["content"],
        lambda body: body["card"]["elements"][1]["actions"][0]["url"],
    ),
    "dingtalk": (lambda body: body["markdown"]["title"], lambda body: body["markdown"]["text"]),
    "wecom": (lambda body: body["markdown"]["content"], lambda body: body["markdown"]["content"]),
    "teams": (
        lambda body: body["attachments"][0]["content"]["body"][0]["text"],
        lambda body: body["attachments"][0]["content"]["actions"][0]["url"],
    ),
    "alertmanager": (
        lambda body: body[0]["annotations"]["summary"],
        lambda body: body[0]["generatorURL"],
    ),
    "pagerduty": (lambda body: body["payload"]["summary"], lambda body: body["links"][0]["href"]),
}


@pytest.mark.parametrize("kind", PLACES)
def test_a_service_gets_an_event_in_its_own_format_with_a_link(
    kind: str, endpoint: WebhookEndpoint, receiver: Receiver, clock: Clock, settings: Any
) -> None:
    settings.SLIPWAY_PUBLIC_URL = "https://slipway.example"
    receiver.reply = Reply(body=b"{}")
    change_webhook(actor=SYSTEM, endpoint=endpoint, format=kind)
    happen()
    deliver(clock)
    body = orjson.loads(receiver.received[0].body)
    title, link = PLACES[kind]
    assert "It is on its way." in title(body)
    assert "https://slipway.example/" in link(body)
    assert "webhook-signature" not in receiver.received[0].headers


def test_the_message_of_a_notify_step_is_what_people_read() -> None:
    data = {"release_id": 3, "message": "Watch the queue.", "release": {"service": "chat", "id": 3}}
    body = orjson.dumps({"timestamp": "2026-11-27T09:00:00+00:00", "data": data}).decode()
    event = WebhookEvent(type="release.notified", ids={"release_id": 3}, body=body)
    assert message_of(event, "en").lines == ["message: Watch the queue.", "service: chat"]


def test_pagerduty_gets_its_routing_key_in_the_body_and_not_in_the_address(
    endpoint: WebhookEndpoint, receiver: Receiver, clock: Clock
) -> None:
    change_webhook(actor=SYSTEM, endpoint=endpoint, url=f"{receiver.url}&routing_key=R0", format="pagerduty")
    happen()
    deliver(clock)
    got = receiver.received[0]
    assert orjson.loads(got.body)["routing_key"] == "R0"
    assert "routing_key" not in got.path


def test_a_chat_that_answers_200_and_an_error_has_not_taken_it(
    endpoint: WebhookEndpoint, receiver: Receiver, clock: Clock
) -> None:
    answers = iter([Reply(body=b'{"errcode": 310000, "errmsg": "keywords not in content"}')])
    receiver.answer = lambda _: next(answers, Reply(body=b'{"errcode": 0}'))
    change_webhook(actor=SYSTEM, endpoint=endpoint, format="dingtalk")
    happen()
    deliver(clock)
    history = WebhookDelivery.objects.get().history
    assert [bool(one["error"]) for one in history] == [True, False]
    assert "310000" in history[0]["error"]


def test_words_are_in_the_language_of_the_reader(
    endpoint: WebhookEndpoint, receiver: Receiver, clock: Clock
) -> None:
    change_webhook(actor=SYSTEM, endpoint=endpoint, format="feishu", language="zh-hans")
    happen()
    deliver(clock)
    assert "在 Slipway 中打开" in receiver.received[0].body.decode()


def test_a_digest_puts_what_happened_meanwhile_into_one_message(
    endpoint: WebhookEndpoint, receiver: Receiver, clock: Clock
) -> None:
    change_webhook(actor=SYSTEM, endpoint=endpoint, format="slack", digest_minutes=15)
    # Not just before the quarter of an hour at which digests go out.
    clock.at = (clock.at + timedelta(hours=1)).replace(minute=1)
    for number in range(3):
        happen(parcel_id=number)
    deliver(clock)
    assert not receiver.received
    clock.pass_(timedelta(minutes=15))
    deliver(clock)
    assert len(receiver.received) == 1
    assert "3 events" in orjson.loads(receiver.received[0].body)["text"]
    assert set(WebhookDelivery.objects.values_list("state", flat=True)) == {"delivered"}


NIGHT = {"from": "22:00", "until": "07:00", "zone": "Europe/Paris"}


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        ("2026-11-20T20:30", "2026-11-20T20:30"),
        ("2026-11-20T21:30", "2026-11-21T06:00"),
        ("2026-11-21T05:59", "2026-11-21T06:00"),
        ("2026-11-21T06:00", "2026-11-21T06:00"),
        # Summer time begins on 29 March at 02:00.
        ("2026-03-28T22:00", "2026-03-29T05:00"),
    ],
)
def test_messages_of_quiet_hours_wait_for_their_end_by_the_clock_of_the_zone(now: str, expected: str) -> None:
    given = datetime.fromisoformat(now).replace(tzinfo=UTC)
    found = first_try_at(given, quiet_hours=NIGHT, digest_minutes=0)
    assert found == datetime.fromisoformat(expected).replace(tzinfo=UTC)
    assert found - given < timedelta(hours=10)


def _smtp(mails: list[bytes]) -> Callable[[socket.socket], None]:
    """Speak the server's side of RFC 5321 and keep what is sent."""

    def talk(connection: socket.socket) -> None:
        with connection.makefile("rwb") as lines:

            def say(text: str) -> None:
                lines.write(text.encode() + b"\r\n")
                lines.flush()

            say("220 test")
            while line := lines.readline().strip().upper():
                if line == b"DATA":
                    say("354 go on")
                    mail = []
                    while (part := lines.readline()) != b".\r\n":
                        mail.append(part)
                    mails.append(b"".join(mail))
                say("250 fine")
                if line == b"QUIT":
                    return

    return talk


def test_an_event_arrives_by_e_mail(endpoint: WebhookEndpoint, clock: Clock, settings: Any) -> None:
    mails: list[bytes] = []
    with talking(_smtp(mails)) as port:
        settings.SLIPWAY_SMTP_URL = f"smtp://127.0.0.1:{port}"
        change_webhook(actor=SYSTEM, endpoint=endpoint, format="email", url="mailto:ops@example.org")
        happen()
        deliver(clock)
    mail: Any = message_from_bytes(mails[0], policy=policy.default)
    assert mail["To"] == "ops@example.org"
    assert mail["Subject"] == "Slipway: It is on its way."
    assert settings.SLIPWAY_PUBLIC_URL in mail.get_content()
    assert WebhookDelivery.objects.get().state == "delivered"


def test_a_mail_server_that_does_not_answer_is_tried_again(
    endpoint: WebhookEndpoint, clock: Clock, settings: Any
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    settings.SLIPWAY_SMTP_URL = f"smtp://127.0.0.1:{port}"
    change_webhook(actor=SYSTEM, endpoint=endpoint, format="email", url="mailto:ops@example.org")
    happen()
    deliver(clock)
    delivery = WebhookDelivery.objects.get()
    assert delivery.tries > 1
    assert "The mail server" in delivery.history[0]["error"]


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"format": "email", "url": "mailto:ops@example.org"}, "format"),
        ({"format": "email", "url": "https://example.org/"}, "url"),
        ({"digest_minutes": 10}, "digest_minutes"),
        ({"quiet_hours": {"from": "22:00", "until": "x", "zone": "UTC"}}, "quiet_hours"),
        ({"quiet_hours": {**NIGHT, "zone": "Mars/Olympus"}}, "quiet_hours"),
    ],
)
def test_what_cannot_be_sent_is_refused_by_field(given: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as refused:
        create_webhook(actor=SYSTEM, **{"url": "https://hooks.example.org/", **given})
    assert field in refused.value.fields


def test_messages_are_set_over_rest() -> None:
    team("post")
    client = api(person("ada", post="admin"))
    given = {"url": "https://hooks.example.org/", "team": "post", "format": "slack", "quiet_hours": NIGHT}
    made = client.post("webhooks/", {**given, "digest_minutes": 5, "language": "zh-hans"})
    assert made.status_code == 201, made.content
    assert made.json()["quiet_hours"] == NIGHT
    changed = client.patch(f"webhooks/{made.json()['id']}/", {"quiet_hours": None, "digest_minutes": 0})
    assert (changed.json()["quiet_hours"], changed.json()["digest_minutes"]) == (None, 0)
