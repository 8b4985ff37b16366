"""What has been kept for long enough is deleted, in small batches, and nothing that is needed."""

from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from axes.models import AccessAttempt, AccessLog
from django.contrib.sessions.models import Session
from django.db import DatabaseError
from django.utils import timezone

from accounts.models import WebhookDelivery, WebhookEndpoint, WebhookEvent
from common.models import AuditRecord, IdempotentAnswer, Intent, Pruning
from common.reconcile import pruning
from common.reconcile.pruning import Prune, PruningRule
from tests.crash.harness import (
    LEASE_AND_A_BIT,
    Checkpoints,
    Clock,
    Crash,
    crashes,
    die,
    run_until_rest,
    worker,
)
from tests.toys.models import Parcel, ParcelHistory
from tests.toys.parcels import ParcelReconciler, World

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)


@pytest.fixture
def clock() -> Clock:
    Pruning.objects.update_or_create(pk=1, defaults={"next_at": timezone.now(), "passes": {}})
    return Clock(timezone.now())


@pytest.fixture
def histories(monkeypatch, settings) -> PruningRule:
    """The only rule: histories 1 to 9 are old, and those of a posted parcel are needed."""
    settings.SLIPWAY_KEEP_PARCELS_DAYS = 10
    rule = PruningRule(
        ParcelHistory,
        "Histories",
        "SLIPWAY_KEEP_PARCELS_DAYS",
        lambda before: ParcelHistory.objects.filter(parcel_id__lt=10).exclude(state="posted").order_by("pk"),
        at_once=2,
    )
    monkeypatch.setattr(pruning, "_rules", {rule.key: rule})
    return rule


def prune(clock: Clock, checkpoints: Checkpoints | None = None) -> None:
    """All that is due, until the next hour."""
    one = worker([Prune()], clock, checkpoints)
    for _ in range(100):
        if not one.sweep():
            return
        clock.pass_(timedelta(seconds=1))
    raise AssertionError("It never came to rest.")


def only(monkeypatch, *labels: str) -> None:
    monkeypatch.setattr(pruning, "_rules", {key: pruning._rules[key] for key in labels})


def past(days: float) -> Any:
    return timezone.now() - days * DAY


def test_a_rule_deletes_in_batches_and_tells_how_many(histories, clock):
    ParcelHistory.objects.bulk_create(ParcelHistory(parcel_id=n, state="boxed") for n in range(1, 12))
    ParcelHistory.objects.create(parcel_id=3, state="posted")
    one, left = worker([Prune()], clock), []
    while one.sweep():
        left.append(ParcelHistory.objects.count())
        clock.pass_(timedelta(seconds=1))
    assert left == [10, 8, 6, 4, 3, 3]
    [kept] = pruning.kept()
    assert (kept.rows, kept.removed, kept.problem) == (3, 9, "")
    row = Pruning.objects.get()
    assert row.next_at - clock() > timedelta(minutes=59)
    clock.pass_(timedelta(hours=1))
    prune(clock)
    assert pruning.kept()[0].removed == 9, "of the last pass that has deleted any"


def test_zero_days_are_for_good(histories, clock, settings):
    settings.SLIPWAY_KEEP_PARCELS_DAYS = 0
    ParcelHistory.objects.create(parcel_id=1, state="boxed")
    prune(clock)
    assert ParcelHistory.objects.count() == 1


def test_what_is_needed_by_the_time_it_would_go_stays(histories, clock):
    old = ParcelHistory.objects.create(parcel_id=1, state="boxed")

    class Meanwhile(Prune):
        def observe(self, row, operation):
            found = super().observe(row, operation)
            ParcelHistory.objects.filter(pk=old.pk).update(state="posted")
            return found

    worker([Meanwhile()], clock).sweep()
    assert ParcelHistory.objects.filter(pk=old.pk).exists()


def test_wherever_it_dies_each_row_goes_once_and_is_counted_once(histories, clock):
    for at in crashes():
        Pruning.objects.update(next_at=clock(), passes={})
        ParcelHistory.objects.bulk_create(ParcelHistory(parcel_id=n, state="boxed") for n in (1, 2, 3, 20))
        checkpoints = Checkpoints(at, die)
        with suppress(Crash):
            prune(clock, checkpoints)
        clock.pass_(LEASE_AND_A_BIT)
        prune(clock)
        assert [one.parcel_id for one in ParcelHistory.objects.all()] == [20]
        assert pruning.kept()[0].removed == 3
        ParcelHistory.objects.all().delete()
        if checkpoints.passed < at:
            return


def test_a_rule_that_fails_says_so_and_does_not_stop_the_others(histories, clock, monkeypatch, settings):
    def broken(before: Any) -> Any:
        raise DatabaseError("no such column")

    bad = PruningRule(Parcel, "Parcels", "SLIPWAY_KEEP_PARCELS_DAYS", broken)
    monkeypatch.setattr(pruning, "_rules", {bad.key: bad, histories.key: histories})
    ParcelHistory.objects.create(parcel_id=1, state="boxed")
    prune(clock)
    assert not ParcelHistory.objects.exists()
    assert [one.problem for one in pruning.kept()] == ["DatabaseError: no such column", ""]


def test_finished_steps_go_and_those_of_the_present_turn_or_in_doubt_stay(clock, monkeypatch):
    only(monkeypatch, "common.intent")
    kernel = worker([ParcelReconciler(World())], clock)
    posted = Parcel.objects.create(next_at=clock())
    run_until_rest(kernel, clock)
    finished = set(Intent.objects.values_list("pk", flat=True))
    assert len(finished) == 3
    posted.refresh_from_db()
    template = Intent.objects.first()
    assert template is not None

    def copy(op_key: str, **columns: Any) -> str:
        one = Intent.objects.get(pk=template.pk)
        one.pk = op_key
        step = op_key.rpartition(":")[2]
        for name, value in {"step": step, **columns}.items():
            setattr(one, name, value)
        one.save(force_insert=True)
        return op_key

    start = f"{template.kind}:{posted.pk}"
    kept = {
        copy(f"{start}:{posted.turn}:wait"),
        copy(f"{start}:0:lost", state="unknown"),
        copy(f"{start}:0:begun", state="intended", acted_at=None),
    }
    copy(f"{template.kind}:{posted.pk}1:{posted.turn}:box", object_id=f"{posted.pk}1")
    Intent.objects.exclude(acted_at=None).update(acted_at=past(31))
    young = copy(f"{start}:0:young", acted_at=past(29))
    monkeypatch.setattr(pruning, "kernel", kernel)
    prune(clock)
    assert set(Intent.objects.values_list("pk", flat=True)) == kept | {young}


def test_answers_within_their_promise_and_at_work_stay(clock, monkeypatch):
    only(monkeypatch, "common.idempotentanswer")
    now = timezone.now()
    for key, status, age, lease in (("old", 201, 2, 2), ("young", 201, 0.9, 0.9), ("taken", None, 2, 0)):
        IdempotentAnswer.objects.create(
            actor="user 1", path="/", key=key, body_hash="", claim="", status=status,
            created_at=now - age * DAY, lease_until=now - lease * DAY,
        )  # fmt: skip
    prune(clock)
    assert sorted(IdempotentAnswer.objects.values_list("key", flat=True)) == ["taken", "young"]


def test_delivered_events_go_and_those_on_their_way_stay(clock, monkeypatch):
    only(monkeypatch, "accounts.webhookevent")
    endpoint = WebhookEndpoint.objects.create(url="https://hooks.example.org/")

    def event(key: str, age: float, *states: str, **columns: Any) -> None:
        one = WebhookEvent.objects.create(key=key, type="x", body="{}", occurred_at=past(age), **columns)
        for state in states:
            WebhookDelivery.objects.create(endpoint=endpoint, event=one, state=state, due_at=timezone.now())

    event("delivered", 31, "delivered")
    event("given up", 31, "given_up")
    event("failed", 31, "failed")
    event("not written out", 31, next_at=timezone.now())
    event("young", 29, "delivered")
    prune(clock)
    assert sorted(WebhookEvent.objects.values_list("key", flat=True)) == [
        "failed",
        "not written out",
        "young",
    ]
    assert WebhookDelivery.objects.count() == 2
    assert [one.removed for one in pruning.kept()] == [2]


def test_expired_sessions_and_old_sign_ins_go(clock, monkeypatch, settings):
    only(monkeypatch, "sessions.session", "axes.accessattempt", "axes.accesslog")
    settings.AXES_COOLOFF_TIME = 10 * 24
    for key, age in (("old", 2), ("just expired", 0.5), ("open", -1)):
        Session.objects.create(session_key=key, session_data="", expire_date=past(age))
    for kind, extra in ((AccessAttempt, {"failures_since_start": 1}), (AccessLog, {})):
        for age in (101, 91, 1):
            one = kind.objects.create(username=f"{age}", **extra)
            kind.objects.filter(pk=one.pk).update(attempt_time=past(age))
    prune(clock)
    assert sorted(Session.objects.values_list("pk", flat=True)) == ["just expired", "open"]
    assert sorted(AccessAttempt.objects.values_list("username", flat=True)) == ["1", "91"]
    assert sorted(AccessLog.objects.values_list("username", flat=True)) == ["1"]


def test_no_rule_touches_the_audit_record(clock):
    models = {rule.model for rule in pruning.rules()}
    assert AuditRecord not in models
    assert len(models) == len(pruning.rules()) >= 13
    with pytest.raises(ValueError, match="already"):
        pruning.offer(pruning.rules()[0])


def test_every_rule_can_be_asked_on_this_database(clock):
    prune(clock)
    assert [one.problem for one in pruning.kept() if one.problem] == []
    assert set(Pruning.objects.get().passes) == {rule.key for rule in pruning.rules()}
