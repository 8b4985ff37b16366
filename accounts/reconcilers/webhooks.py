"""Webhooks on their way: an event is written out for whom it concerns; an endpoint works its queue off.

At least once: a worker that dies between the answer and its note sends the same bytes again under the same
`webhook-id`, by which receivers tell a repetition. What is noted is never sent again.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db.models import F, Q

from accounts import selectors
from accounts.models import Team, WebhookDelivery, WebhookEndpoint, WebhookEvent
from accounts.notifying import notify
from accounts.services import webhooks
from accounts.states import OPEN_DELIVERIES, WEBHOOK_TEST, DeliveryState, Right, WebhookFormat
from common import clock
from common.actor import Actor
from common.audit import record
from common.models import Intent
from common.reconcile import (
    Effect,
    NotKnownHere,
    Operation,
    Reconciler,
    Step,
    StepOutcome,
    kernel,
    lane_at,
    proceed,
    rest,
    wait,
)
from common.retry import retry_after as asked_by
from common.sealed import CannotUnseal
from common.webhooks import catalogue, schedule
from common.webhooks.catalogue import EventPayload
from common.webhooks.sending import OK, DeliveryResponse

ACTOR = Actor.system("webhooks")
DISABLED_AFTER = timedelta(days=3)
"""Of nothing but failures."""
LONGEST_HISTORY = 30
MOST_AT_ONCE = 200
"""Deliveries in one digest; the rest makes another."""
GONE = 410
ASKS_FOR_PATIENCE = frozenset({429, 503})


class AddressedPayload(NamedTuple):
    payload: EventPayload
    to: list[WebhookEndpoint]


class WriteDeliveries(Step[WebhookEvent]):
    name = "write out"

    def observe(self, row: WebhookEvent, operation: Operation) -> AddressedPayload | None:
        known = catalogue.known().get(row.type)
        if known is None:
            raise NotKnownHere.event(row.type)
        payload = known.build(row.ids)
        if payload is None:
            return None
        to = _receivers(row, payload)
        return AddressedPayload(payload, to) if to else None

    def settle(self, row: WebhookEvent, seen: AddressedPayload | None, now: datetime) -> StepOutcome:
        if seen is None:
            return rest(write=lambda: _forget(row))

        def hand_out() -> None:
            # Waking locks the row: who disables it meanwhile finds what is handed out here, or is found.
            awake = [endpoint for endpoint in seen.to if kernel.wake(endpoint, where={"enabled": True})]
            WebhookDelivery.objects.bulk_create(
                WebhookDelivery(endpoint=endpoint, event=row, due_at=_first_try_at(endpoint, now))
                for endpoint in awake
            )

        body = webhooks.written_out(row.type, row.occurred_at, seen.payload.data)
        return rest(save={"body": body, "team_id": seen.payload.team_id}, write=hand_out)


def _receivers(row: WebhookEvent, payload: EventPayload) -> list[WebhookEndpoint]:
    """Return the endpoints whose owners the event concerns and whose rules choose it."""
    for_all = payload.team_id is None and catalogue.known()[row.type].without_team_for_all
    listeners = selectors.listeners(payload.team_id, for_all=for_all)
    owners = Q(team=None, person=None) | Q(person__in=listeners)
    if for_all:
        owners |= ~Q(team=None)
    if (team := Team.objects.filter(pk=payload.team_id or 0).first()) is not None:
        owners |= Q(team=team)
    documents = (value for value in payload.data.values() if isinstance(value, Mapping))
    severity = next((str(one["severity"]) for one in documents if one.get("severity")), "")
    endpoints = WebhookEndpoint.objects.filter(owners, enabled=True)
    team_name = None if for_all else str(team or "")
    return [one for one in endpoints if one.wants(row.type, team=team_name, severity=severity)]


def _first_try_at(endpoint: WebhookEndpoint, now: datetime) -> datetime:
    return schedule.first_try_at(
        now, quiet_hours=endpoint.quiet_hours, digest_minutes=endpoint.digest_minutes
    )


def _forget(event: WebhookEvent) -> None:
    WebhookEvent.objects.filter(pk=event.pk).delete()


class WebhookEventReconciler(Reconciler[WebhookEvent]):
    model = WebhookEvent

    def next_step(self, row: WebhookEvent, now: datetime) -> Step[WebhookEvent] | None:
        return None if row.body else WriteDeliveries()


class SendDelivery(Step[WebhookEndpoint]):
    """Send one POST. Its `webhook-id` is the deterministic name under which it arrives.

    `also`: deliveries that go with it, in the message of a digest.
    """

    name = "send"
    effect = Effect.CREATE

    def __init__(self, delivery: WebhookDelivery, also: Sequence[WebhookDelivery] = ()) -> None:
        self.delivery = delivery
        self.also = also

    def intent(self, row: WebhookEndpoint) -> Mapping[str, Any]:
        return {"delivery": self.delivery.pk}

    def act(self, row: WebhookEndpoint, operation: Operation) -> Mapping[str, Any]:
        events = [one.event for one in (self.delivery, *self.also)]
        now = clock.now()
        try:
            if row.format == WebhookFormat.STANDARD:
                body = events[0].body.encode()
                answer = webhooks.signed_post(row, message_id=events[0].key, body=body, now=now)
            else:
                answer = notify(row, events, webhooks.allowed_places())
        except (CannotUnseal, ValueError) as error:
            answer = DeliveryResponse(None, 0, error=str(error))
        return {
            "delivery": self.delivery.pk,
            "also": [one.pk for one in self.also],
            "at": now.isoformat(),
            "status": answer.status,
            "milliseconds": answer.milliseconds,
            "answer": answer.body,
            "retry_after": answer.retry_after,
            "error": answer.error,
        }

    def observe(self, row: WebhookEndpoint, operation: Operation) -> Intent:
        """Return the journal's entry, which after a crash holds the response that an earlier worker got."""
        return Intent.objects.get(op_key=operation.op_key)

    def settle(self, row: WebhookEndpoint, seen: Intent, now: datetime) -> StepOutcome:
        tried = dict(seen.result or {})
        delivery_id, asked, also = tried.pop("delivery"), tried.pop("retry_after"), tried.pop("also", ())
        delivery = WebhookDelivery.objects.filter(pk=delivery_id).first()
        tries = (delivery.tries if delivery else 0) + 1
        history = [*(delivery.history if delivery else ()), tried][-LONGEST_HISTORY:]
        judged = judge(
            row, tries=tries, status=tried["status"], error=tried["error"], retry_after=asked, now=now
        )

        def write() -> None:
            seen.delete()
            WebhookDelivery.objects.filter(pk=delivery_id).update(
                state=judged.state, due_at=judged.due_at, tries=tries, history=history
            )
            WebhookDelivery.objects.filter(pk__in=also).update(
                state=judged.state, due_at=judged.due_at, tries=tries, history=[tried]
            )
            if judged.disabled_why:
                disable(row, why=judged.disabled_why, now=now)

        return StepOutcome(next_in=timedelta(0), ends_step=True, save=judged.columns, write=write)


class DeliveryVerdict(NamedTuple):
    """The consequences of an attempt for the delivery and for the endpoint."""

    state: DeliveryState
    due_at: datetime
    columns: Mapping[str, Any]
    disabled_why: str = ""


def judge(
    endpoint: WebhookEndpoint, *, tries: int, status: int | None, error: str, retry_after: str, now: datetime
) -> DeliveryVerdict:
    """Pure, but for the jitter."""
    if status in OK and not error:
        fine = {"failures": 0, "failing_since": None, "quiet_until": None, "delivered_at": now}
        return DeliveryVerdict(DeliveryState.DELIVERED, now, fine)
    asked = asked_by(retry_after, now=now, longest=schedule.LONGEST_ASKED) or timedelta(0)
    due_at = now + max(schedule.delay_after(tries), asked)
    failures, since = endpoint.failures + 1, endpoint.failing_since or now
    pause = schedule.pause_after(failures)
    columns = {
        "failures": failures,
        "failing_since": since,
        "quiet_until": now + (max(pause, asked) if status in ASKS_FOR_PATIENCE else pause),
    }
    why = ""
    if status == GONE:
        why = "Its receiver answered 410 Gone: it wants no more."
    elif now - since >= DISABLED_AFTER:
        why = f"Nothing reached it for {DISABLED_AFTER.days} days: {error or f'it answered {status}'}"
    over = why or tries >= schedule.MOST_TRIES
    return DeliveryVerdict(DeliveryState.GIVEN_UP if over else DeliveryState.FAILED, due_at, columns, why)


def disable(endpoint: WebhookEndpoint, *, why: str, now: datetime) -> None:
    """Disable an endpoint, inside the transaction of its last try, and tell endpoints that want to hear."""
    WebhookEndpoint.objects.filter(pk=endpoint.pk).update(
        enabled=False, disabled_why=why, revision=F("revision") + 1
    )
    webhooks.give_up_open(endpoint, why="Its endpoint was disabled.", now=now)
    webhooks.announce(webhooks.DISABLED, webhook_id=endpoint.pk, why=why)
    record(ACTOR, "webhook.disable", subject=endpoint, reason=why, team_id=endpoint.team_id)


class AwaitDelivery(Step[WebhookEndpoint]):
    name = "await"

    def __init__(self, until: datetime) -> None:
        self.until = until

    def settle(self, row: WebhookEndpoint, seen: Any, now: datetime) -> StepOutcome:
        return wait(max(self.until - now, timedelta(milliseconds=10)))


class WithdrawDeliveries(Step[WebhookEndpoint]):
    """Give up what a person's endpoint waits to send and the person may not hear of any more."""

    name = "withdraw"

    def settle(self, row: WebhookEndpoint, seen: Any, now: datetime) -> StepOutcome:
        why = "The person is no longer in the team of this event."
        beyond = selectors.withdrawn_deliveries(row)
        return proceed(write=lambda: webhooks.give_up(beyond, why=why, now=now))


class EndpointReconciler(Reconciler[WebhookEndpoint]):
    model = WebhookEndpoint
    right = Right.WEBHOOKS_WRITE

    def lane_of(self, row: WebhookEndpoint) -> str:
        return "webhook:mail" if row.format == WebhookFormat.EMAIL else lane_at("webhook", row.url)

    def next_step(self, row: WebhookEndpoint, now: datetime) -> Step[WebhookEndpoint] | None:
        if not row.enabled:
            return None
        if row.person_id is not None and selectors.withdrawn_deliveries(row).exists():
            return WithdrawDeliveries()
        waiting = WebhookDelivery.objects.filter(endpoint=row, state__in=OPEN_DELIVERIES)
        in_turn = waiting.select_related("event").order_by("due_at", "pk")
        # A person waits for what comes of a test: neither the queue nor a pause keeps its first try back.
        if test := in_turn.filter(event__type=WEBHOOK_TEST, tries=0).first():
            return SendDelivery(test)
        if (first := in_turn.first()) is None:
            return None
        until = max(first.due_at, row.quiet_until or first.due_at)
        if until > now:
            return AwaitDelivery(until)
        due = in_turn.filter(due_at__lte=now).exclude(pk=first.pk)[:MOST_AT_ONCE]
        return SendDelivery(first, list(due) if row.digest_minutes else ())
