"""`slipway webhook`: who is told what happens, and what was sent."""

import pytest
from django.utils import timezone

from accounts.models import WebhookDelivery, WebhookEndpoint
from accounts.reconcilers.webhooks import EndpointReconciler, WebhookEventReconciler
from accounts.states import Role
from tests.cast import person, token_of
from tests.crash.harness import Clock, worker
from tests.slipway.conftest import Terminal
from tests.webhooks.conftest import _here, endpoint, parcels, receiver
from tests.webhooks.receiver import Receiver, Reply

JSON = ("--output", "json")
URL = "https://hooks.example.org/slipway"

__all__ = ["_here", "endpoint", "parcels", "receiver"]


@pytest.fixture
def cleo(terminal: Terminal) -> Terminal:
    """An admin of the team post types."""
    terminal.token = token_of(person("cleo", post=Role.ADMIN))

    def sweep() -> None:
        worker([WebhookEventReconciler(), EndpointReconciler()], Clock(timezone.now())).sweep()

    terminal.while_waiting = sweep
    return terminal


def test_a_webhook_is_added_with_a_secret_that_is_alone_on_stdout(cleo: Terminal) -> None:
    said = cleo("webhook", "add", URL, "--team", "post", "--event", "release.ended", "--description", "Chat")
    assert said.status == 0, said
    secret = said.out.strip()
    assert secret.startswith("whsec_")
    row = WebhookEndpoint.objects.get()
    assert (row.events, row.description, row.team.name) == (["release.ended"], "Chat", "post")
    rotated = cleo(*JSON, "webhook", "rotate", row.pk)
    assert rotated.document["secret"] not in (secret, rotated.err)
    listed = cleo("webhook", "list", "--enabled")
    shown = cleo("webhook", "show", row.pk)
    assert URL in listed.out
    assert "receives release.ended of post; enabled" in shown.out
    assert "whsec_" not in listed.out + shown.out + rotated.err


def test_a_secret_that_got_lost_is_not_asked_for_again(cleo: Terminal) -> None:
    cleo.wire.lose = 1
    assert cleo("webhook", "add", URL, "--team", "post").status == 8
    row = WebhookEndpoint.objects.get()
    cleo.wire.lose = 1
    assert cleo("webhook", "rotate", row.pk).status == 8
    assert cleo("webhook", "rotate", row.pk).out.startswith("whsec_")


def test_a_webhook_is_edited_disabled_enabled_and_deleted(cleo: Terminal, endpoint: WebhookEndpoint) -> None:
    number = endpoint.pk
    assert cleo("webhook", "edit", number, "-e", "parcel.posted", "-e", "parcel.lost").status == 0
    assert cleo("webhook", "edit", number, "--description", "Chat").status == 0
    endpoint.refresh_from_db()
    assert (endpoint.events, endpoint.description) == (["parcel.lost", "parcel.posted"], "Chat")
    assert "receives all events of post" in cleo("webhook", "edit", number, "--all-events").out
    assert cleo("webhook", "disable", number).status == 2
    assert (
        "disabled: It is noisy."
        in cleo("webhook", "disable", "--yes", number, "--reason", "It is noisy.").out
    )
    silent = cleo("webhook", "test", number)
    assert (silent.status, "Enable it first" in silent.err) == (1, True)
    assert cleo(*JSON, "webhook", "list", "--enabled").document == []
    assert "; enabled" in cleo("webhook", "enable", number).out
    assert cleo("webhook", "delete", number).status == 2
    assert cleo("webhook", "delete", number, "--yes", "--reason", "It is gone.").status == 0
    assert not WebhookEndpoint.objects.exists()


def test_a_test_is_sent_and_what_was_sent_is_listed_shown_and_replayed(
    cleo: Terminal, endpoint: WebhookEndpoint, receiver: Receiver
) -> None:
    said = cleo("webhook", "test", endpoint.pk)
    assert (said.status, "is delivered: 200 thanks" in said.out) == (0, True), said
    (row,) = cleo(*JSON, "webhook", "deliveries", endpoint.pk, "--type", "webhook.test").document
    assert cleo(*JSON, "webhook", "deliveries", endpoint.pk, "--state", "failed").document == []
    shown = cleo("webhook", "delivery", endpoint.pk, row["id"]).out
    assert row["message_id"] in shown
    assert '"type": "webhook.test"' in shown
    assert cleo("webhook", "replay", endpoint.pk, row["id"]).status == 0
    assert len(receiver.received) == 2
    assert len({one.headers["webhook-id"] for one in receiver.received}) == 1


def test_a_test_that_is_not_taken_ends_with_1_and_says_what_was_answered(
    cleo: Terminal, endpoint: WebhookEndpoint, receiver: Receiver
) -> None:
    receiver.reply = Reply(500, body=b"out of paper")
    said = cleo("webhook", "test", endpoint.pk)
    assert (said.status, "is failed: 500" in said.err) == (1, True), said
    assert "500" in cleo("webhook", "deliveries", endpoint.pk).out
    assert "failing since" in cleo("webhook", "list").out
    number = WebhookDelivery.objects.get().pk
    early = cleo("webhook", "replay", endpoint.pk, number)
    assert (early.status, "still queued" in early.err) == (1, True)


def test_waiting_for_an_answer_ends_with_4_when_time_is_over(
    cleo: Terminal, endpoint: WebhookEndpoint
) -> None:
    assert cleo("webhook", "test", endpoint.pk, "--timeout", 0).status == 4


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (("add", "http://10.0.0.1/"), 2, "url"),
        (("add", URL, "--event", "release.exploded"), 2, "events"),
        (("edit", "{id}"), 2, "Nothing to change"),
        (("edit", "{id}", "--all-events", "--event", "parcel.lost"), 2, "--all-events"),
        (("edit", "{id}", "--url", "ftp://example.org"), 2, "url"),
        (("show", 9999), 2, ""),
        (("deliveries", "{id}", "--state", "asleep"), 2, "state"),
        (("delivery", "{id}", 9999), 2, ""),
    ],
)
def test_what_makes_no_sense_is_refused(
    cleo: Terminal, endpoint: WebhookEndpoint, arguments: tuple[object, ...], status: int, words: str
) -> None:
    team = ("--team", "post") if arguments[0] == "add" else ()
    said = cleo("webhook", *(str(one).format(id=endpoint.pk) for one in arguments), *team)
    assert (said.status, words in said.err) == (status, True), said


@pytest.mark.usefixtures("_here")
def test_a_developer_has_one_of_their_own(cleo: Terminal) -> None:
    developer = token_of(person("dan", post=Role.DEVELOPER))
    options = ("--mine", "--format", "slack", "--only-team", "post", "--severity", "critical")
    assert cleo("webhook", "add", URL, *options, token=developer).status == 0
    row = WebhookEndpoint.objects.get()
    assert (str(row.person), row.teams, row.severity) == ("dan", ["post"], "critical")
    assert "post for dan" in cleo("webhook", "edit", row.pk, "--severity", "any", token=developer).out
    assert cleo("webhook", "add", URL, "--mine", "--only-team", "rail", token=developer).status == 2


def test_only_admins_of_a_team_look_after_its_webhooks(cleo: Terminal, endpoint: WebhookEndpoint) -> None:
    developer = token_of(person("dan", post=Role.DEVELOPER))
    assert str(endpoint.pk) not in cleo("webhook", "list", token=developer).out
    assert cleo("webhook", "rotate", endpoint.pk, token=developer).status == 7
    assert cleo("webhook", "add", URL).status == 7
    assert cleo("webhook", "show", endpoint.pk, token=token_of(person("eve", other=Role.ADMIN))).status == 2
