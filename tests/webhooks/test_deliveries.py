"""What happens is sent to whom it concerns, again and again until it is received, and no further."""

from datetime import timedelta

import orjson
import pytest
from django.db import transaction
from django.utils import timezone

from accounts.actors import of_user
from accounts.models import Membership, User, WebhookDelivery, WebhookEndpoint, WebhookEvent
from accounts.reconcilers.webhooks import EndpointReconciler, WebhookEventReconciler
from accounts.services import webhooks
from common.errors import Conflict
from common.models import AuditRecord, Intent
from common.reconcile import Kernel
from freezes.services import stop_releases
from tests.cast import SYSTEM, person, team
from tests.crash.harness import Checkpoints, Clock, Crash, crashes, die, run_until_rest, worker
from tests.webhooks.receiver import Receiver, Reply

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def clock() -> Clock:
    return Clock(timezone.now())


def kernel(clock: Clock, checkpoints: Checkpoints | None = None) -> Kernel:
    return worker([WebhookEventReconciler(), EndpointReconciler()], clock, checkpoints)


def happen(event_type: str = "parcel.posted", **ids) -> None:
    with transaction.atomic():
        webhooks.announce(event_type, **(ids or {"parcel_id": 7}))


def sweep_twice(clock: Clock, checkpoints: Checkpoints | None = None) -> None:
    """Once for the events, once for the endpoints that they woke: by the wall clock."""
    for _ in range(2):
        clock.at = max(clock.at, timezone.now())
        kernel(clock, checkpoints).sweep()


def deliver(clock: Clock) -> None:
    """All that is on its way, however long it takes."""
    clock.at = max(clock.at, timezone.now())
    kernel(clock).sweep()
    clock.at = max(clock.at, timezone.now())
    run_until_rest(kernel(clock), clock, ticks=200_000)


def only() -> WebhookDelivery:
    return WebhookDelivery.objects.get()


def test_an_event_arrives_signed_with_the_document_that_rest_shows(endpoint, receiver, clock):
    happen()
    deliver(clock)
    got = receiver.received[0]
    said = orjson.loads(got.body)
    assert said["type"] == "parcel.posted"
    assert said["data"] == {"parcel_id": 7, "parcel": {"weight": 2}}
    assert said["timestamp"] == WebhookEvent.objects.get().occurred_at.isoformat()
    assert got.is_signed_with(endpoint.secret)
    assert abs(int(got.headers["webhook-timestamp"]) - timezone.now().timestamp()) < 60
    assert got.headers["content-type"] == "application/json"
    delivery = only()
    assert (delivery.state, delivery.tries) == ("delivered", 1)
    assert delivery.history[0]["status"] == 200
    assert delivery.history[0]["answer"] == "thanks"
    assert not Intent.objects.exists()


def test_a_rolled_back_deed_is_not_told_and_a_committed_one_survives_its_process(endpoint, receiver, clock):
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        webhooks.announce("parcel.posted", parcel_id=1)
        raise ZeroDivisionError
    assert not WebhookEvent.objects.exists()
    happen()
    assert WebhookEvent.objects.get().next_at is not None, "only the sweep is needed"


def test_a_team_hears_of_its_own_and_the_installation_of_everything(endpoint, receiver, clock):
    theirs = webhooks.create_webhook(actor=SYSTEM, url=f"{receiver.url}&whose=theirs", team=team("other"))
    everyones = webhooks.create_webhook(actor=SYSTEM, url=f"{receiver.url}&whose=all")
    happen("parcel.posted")
    happen("parcel.lost")
    deliver(clock)
    told = {(one.endpoint_id, one.event.type) for one in WebhookDelivery.objects.select_related("event")}
    assert told == {
        (endpoint.pk, "parcel.posted"),
        (everyones.endpoint.pk, "parcel.posted"),
        (everyones.endpoint.pk, "parcel.lost"),
    }
    assert not theirs.endpoint.deliveries.exists()


def test_only_the_wanted_types_are_sent_and_what_nobody_wants_leaves_nothing(endpoint, clock):
    webhooks.change_webhook(actor=SYSTEM, endpoint=endpoint, events=["parcel.lost"])
    happen("parcel.posted")
    happen("parcel.forgotten")
    deliver(clock)
    assert not WebhookEvent.objects.exists()
    assert not WebhookDelivery.objects.exists()


def test_without_endpoints_nothing_is_noted(db, parcels):
    happen()
    assert not WebhookEvent.objects.exists()


def test_a_failure_is_tried_again_until_it_is_received(endpoint, receiver, clock):
    answers = iter([Reply(500, body=b"no"), Reply(502), Reply()])
    receiver.answer = lambda _: next(answers)
    happen()
    deliver(clock)
    delivery = only()
    assert (delivery.state, [one["status"] for one in delivery.history]) == ("delivered", [500, 502, 200])
    assert len({got.headers["webhook-id"] for got in receiver.received}) == 1
    assert len({got.body for got in receiver.received}) == 1
    endpoint.refresh_from_db()
    assert (endpoint.failures, endpoint.failing_since) == (0, None)


def test_after_a_day_of_failures_it_is_given_up(endpoint, receiver, clock):
    receiver.reply = Reply(500)
    began = clock.at
    happen()
    kernel(clock).sweep()
    sweep_twice(clock)
    for _ in range(10):
        clock.at = max(only().due_at, clock.at + timedelta(minutes=6))
        kernel(clock).sweep()
    delivery = only()
    assert (delivery.state, delivery.tries, len(receiver.received)) == ("given_up", 11, 11)
    assert timedelta(hours=16) < clock.at - began < timedelta(hours=45)


def test_retry_after_is_honoured_for_everything_that_goes_there(endpoint, receiver, clock):
    receiver.reply = Reply(429, {"retry-after": "600"})
    happen(parcel_id=1)
    sweep_twice(clock)
    happen(parcel_id=2)
    receiver.reply = Reply()
    for _ in range(9):
        clock.pass_(timedelta(minutes=1))
        kernel(clock).sweep()
    assert len(receiver.received) == 1
    clock.pass_(timedelta(minutes=2))
    kernel(clock).sweep()
    assert len(receiver.received) == 3


def test_a_receiver_that_is_gone_is_left_alone_and_that_is_told(endpoint, receiver, clock):
    other = webhooks.create_webhook(actor=SYSTEM, url=f"{receiver.url}&whose=other", team=team("post"))
    receiver.answer = lambda got: Reply(410 if "other" not in got.path else 200)
    happen(parcel_id=1)
    deliver(clock)
    endpoint.refresh_from_db()
    assert not endpoint.enabled
    assert "410 Gone" in endpoint.disabled_why
    assert endpoint.deliveries.get().state == "given_up"
    assert AuditRecord.objects.filter(action="webhook.disable", subject_id=str(endpoint.pk)).exists()
    told = other.endpoint.deliveries.get(event__type="webhook.disabled")
    assert (told.state, told.event.ids["webhook_id"]) == ("delivered", endpoint.pk)
    happen(parcel_id=2)
    deliver(clock)
    assert endpoint.deliveries.count() == 1


def test_three_days_of_nothing_but_failures_disable_an_endpoint(endpoint, receiver, clock):
    receiver.reply = Reply(503)
    WebhookEndpoint.objects.filter(pk=endpoint.pk).update(
        failures=9, failing_since=clock.at - timedelta(days=3, minutes=1)
    )
    happen(parcel_id=1)
    happen(parcel_id=2)
    deliver(clock)
    endpoint.refresh_from_db()
    assert not endpoint.enabled
    assert "3 days" in endpoint.disabled_why
    assert [one.state for one in endpoint.deliveries.all()] == ["given_up", "given_up"]
    webhooks.change_webhook(actor=SYSTEM, endpoint=endpoint, enabled=True)
    assert (endpoint.failures, endpoint.failing_since, endpoint.disabled_why) == (0, None, "")


def test_a_failing_endpoint_is_tried_ever_more_rarely_however_much_waits_for_it(endpoint, receiver, clock):
    receiver.reply = Reply(500)
    for number in range(20):
        happen(parcel_id=number)
    sweep_twice(clock)
    for _ in range(120):
        kernel(clock).sweep()
        clock.pass_(timedelta(seconds=1))
    assert 5 <= len(receiver.received) <= 9


def test_for_a_day_both_secrets_sign_and_then_the_new_one_alone(endpoint, receiver, clock):
    rotated = webhooks.rotate_webhook_secret(actor=SYSTEM, endpoint=endpoint)
    happen(parcel_id=1)
    deliver(clock)
    assert receiver.received[0].is_signed_with(endpoint.secret)
    assert receiver.received[0].is_signed_with(rotated.secret)
    WebhookEndpoint.objects.update(former_secret_until=timezone.now())
    happen(parcel_id=2)
    deliver(clock)
    assert receiver.received[1].is_signed_with(rotated.secret)
    assert not receiver.received[1].is_signed_with(endpoint.secret)


def test_a_secret_that_cannot_be_read_is_a_failure_that_says_what_to_do(endpoint, receiver, clock, settings):
    settings.SECRET_KEY = "another key of the house, as long as it should be"
    happen()
    sweep_twice(clock)
    assert "SECRET_KEY" in only().history[0]["error"]
    assert receiver.received == []


def test_an_address_that_is_not_allowed_any_more_gets_nothing(endpoint, receiver, clock, settings):
    settings.SLIPWAY_WEBHOOK_ALLOWED_HOSTS = ()
    happen()
    sweep_twice(clock)
    assert "SLIPWAY_WEBHOOK_ALLOWED_HOSTS" in only().history[0]["error"]
    assert receiver.received == []


def test_a_test_is_sent_whatever_is_wanted_and_at_once(endpoint, receiver, clock):
    webhooks.change_webhook(actor=SYSTEM, endpoint=endpoint, events=["parcel.lost"])
    WebhookEndpoint.objects.update(failures=5, quiet_until=timezone.now() + timedelta(hours=1))
    delivery = webhooks.send_test(actor=SYSTEM, endpoint=endpoint)
    deliver(clock)
    delivery.refresh_from_db()
    assert delivery.state == "delivered"
    assert orjson.loads(receiver.received[0].body)["type"] == "webhook.test"


def test_a_test_waits_neither_for_what_failed_before_nor_for_the_pause_that_follows(
    endpoint, receiver, clock
):
    receiver.reply = Reply(500)
    happen()
    sweep_twice(clock)
    WebhookDelivery.objects.update(due_at=timezone.now() - timedelta(hours=1))
    delivery = webhooks.send_test(actor=SYSTEM, endpoint=endpoint)
    WebhookEndpoint.objects.update(quiet_until=timezone.now() + timedelta(hours=1))
    sweep_twice(clock)
    delivery.refresh_from_db()
    assert (delivery.tries, delivery.history[0]["status"]) == (1, 500)
    assert [orjson.loads(got.body)["type"] for got in receiver.received] == ["parcel.posted", "webhook.test"]
    WebhookEndpoint.objects.update(next_at=timezone.now())
    sweep_twice(clock)
    assert len(receiver.received) == 2, "what has failed keeps the pause"


def test_a_replay_sends_the_same_bytes_under_the_same_id(endpoint, receiver, clock):
    happen()
    deliver(clock)
    webhooks.replay_delivery(actor=SYSTEM, delivery=only())
    with pytest.raises(Conflict, match="still queued"):
        webhooks.replay_delivery(actor=SYSTEM, delivery=only())
    deliver(clock)
    first, second = receiver.received
    assert (first.body, first.headers["webhook-id"]) == (second.body, second.headers["webhook-id"])
    assert [one["status"] for one in only().history] == [200, 200]


def test_who_disables_an_endpoint_stops_what_is_on_its_way(endpoint, receiver, clock):
    receiver.reply = Reply(500)
    happen()
    sweep_twice(clock)
    webhooks.change_webhook(actor=SYSTEM, endpoint=endpoint, enabled=False, reason="It moved.")
    deliver(clock)
    assert (only().state, len(receiver.received)) == ("given_up", 1)
    assert only().history[-1]["error"] == "It moved."
    for refused in (
        lambda: webhooks.send_test(actor=SYSTEM, endpoint=endpoint),
        lambda: webhooks.replay_delivery(actor=SYSTEM, delivery=only()),
    ):
        with pytest.raises(Conflict, match="Enable it first"):
            refused()


def test_wherever_a_worker_dies_the_event_arrives_and_only_an_unnoted_answer_is_asked_for_twice(
    endpoint: WebhookEndpoint, receiver: Receiver
):
    for at in crashes():
        WebhookEvent.objects.all().delete()
        receiver.received.clear()
        clock = Clock(timezone.now())
        checkpoints = Checkpoints(at, die)
        happen(parcel_id=at)
        died_at = ""
        try:
            sweep_twice(clock, checkpoints)
        except Crash:
            died_at = checkpoints.names[-1]
        deliver(clock)
        assert only().state == "delivered", died_at
        assert len(only().history) == 1
        assert len({got.headers["webhook-id"] for got in receiver.received}) == 1
        assert len(receiver.received) == (2 if died_at == "acted" else 1), died_at
        if checkpoints.passed < at:
            break
    assert at > 10


class TestDeliveriesToAPerson:
    """An endpoint of a person is sent the events of the teams that they are in, for as long as they are."""

    @pytest.fixture
    def own(self, _here, parcels, receiver) -> WebhookEndpoint:
        user = person("bob", post="viewer", rail="viewer")
        return webhooks.create_webhook(actor=of_user(user), url=receiver.url, person=user).endpoint

    def test_events_of_their_teams_arrive_and_no_others(self, own, receiver, clock):
        person("eve", rail="viewer")
        happen("parcel.posted")
        happen("parcel.lost", parcel_id=1)
        deliver(clock)
        assert [delivery.event.type for delivery in WebhookDelivery.objects.all()] == ["parcel.posted"]
        assert len(receiver.received) == 1
        WebhookEndpoint.objects.update(teams=["rail"])
        happen("parcel.posted")
        deliver(clock)
        assert len(receiver.received) == 1, "its rule names another team"

    def test_a_stop_of_all_teams_arrives_at_every_team_and_one_of_a_team_at_that_team(
        self, own, endpoint, receiver, clock
    ):
        WebhookEndpoint.objects.update(teams=["rail"], events=["freeze.changed"])
        WebhookEndpoint.objects.filter(pk=endpoint.pk).update(teams=[])
        stop_releases(actor=SYSTEM, team=None, reason="All is slow.")
        stop_releases(actor=SYSTEM, team=team("rail"), reason="Trains stand.")
        deliver(clock)
        told = WebhookDelivery.objects.filter(state="delivered").values_list("endpoint", "event__team__name")
        assert sorted(told, key=str) == sorted(
            [(endpoint.pk, None), (own.pk, None), (own.pk, "rail")], key=str
        )

    def test_who_leaves_a_team_is_sent_nothing_more_of_it_not_even_what_waits(self, own, receiver, clock):
        WebhookEndpoint.objects.update(quiet_until=timezone.now() + timedelta(hours=1))
        happen()
        sweep_twice(clock)
        assert only().state == "pending"
        Membership.objects.filter(user__username="bob", team__name="post").delete()
        happen()
        clock.pass_(timedelta(hours=2))
        deliver(clock)
        assert (only().state, receiver.received) == ("given_up", [])

    def test_who_may_not_sign_in_is_sent_nothing(self, own, receiver, clock):
        User.objects.update(is_active=False)
        happen()
        deliver(clock)
        assert not WebhookDelivery.objects.exists()

    def test_the_test_button_reaches_even_who_is_in_no_team(self, own, receiver, clock):
        Membership.objects.all().delete()
        webhooks.send_test(actor=SYSTEM, endpoint=own)
        deliver(clock)
        assert only().state == "delivered"


def test_a_severity_chooses_among_events_that_have_one():
    page = WebhookEndpoint(severity="critical")
    found = [page.wants("alert.firing", severity=one) for one in ("", "info", "warning", "critical", "fatal")]
    assert found == [True, False, False, True, True]
