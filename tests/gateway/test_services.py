from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from common import audit, events
from common.actor import Actor
from common.fence import Fence
from common.models import AuditRecord
from gateway import selectors
from gateway.backends.fake import FakeGateway
from gateway.errors import GatewayUnreachable, InvalidRoute, StaleRouteFence, UnknownRoute
from gateway.events import RouteChanged
from gateway.models import Gateway, Route
from gateway.routes import ReleaseHeader, RouteSpec, RouteTarget, WorkerEndpoint
from gateway.services import routes
from tests.gateway.cast import reweigh, set_route

ANN = Actor(name="ann", user_id=1, via="web")
STABLE, CANARY, THIRD = (
    RouteTarget("chat-1", "chatty:1"),
    RouteTarget("chat-2", "chatty:2"),
    RouteTarget("chat-3", "chatty:3"),
)
BOTH = RouteSpec("chat", STABLE, CANARY, 10)

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def workers(gateway: FakeGateway) -> None:
    for target in (STABLE, CANARY):
        gateway.set_target(target.name, [WorkerEndpoint("10.0.0.1", 80)], observed_at=datetime.now(UTC))


def actions() -> list[str]:
    records = AuditRecord.objects.filter(action__startswith="route.").order_by("seq")
    return list(records.values_list("action", flat=True))


def test_a_route_is_written_down_applied_and_audited(gateway: FakeGateway) -> None:
    row = set_route(BOTH, fence=Fence(1, 1), actor=ANN, reason="canary of chatty 2")
    assert row.spec == gateway.desired_route("chat") == BOTH
    assert row.fence == Fence(1, 1)
    assert row.applied_at
    assert selectors.route("chat") == row
    record = AuditRecord.objects.get(action="route.set")
    assert (record.actor, record.action, record.reason) == ("ann", "route.set", "canary of chatty 2")
    assert record.detail == {
        "from": None,
        "to": {
            "stable": "chatty:1",
            "stable_target": STABLE.name,
            "candidate": "chatty:2",
            "candidate_percent": 10,
        },
        "writer": 1,
    }
    assert audit.verify().intact


def choose(header: ReleaseHeader, *, key: str = "") -> None:
    with transaction.atomic():
        routes.set_release_header("chat", header, key=key, actor=ANN)


def test_who_may_choose_a_side_is_kept_whoever_sets_the_route(gateway: FakeGateway) -> None:
    choose("open")  # no route yet: nothing to say
    set_route(replace(BOTH, release_header="open"), fence=Fence(1, 1), actor=ANN)
    choose("secret", key="the-key")
    row = selectors.route("chat")
    assert "the-key" not in row.sealed_release_key
    assert row.applied_at is None
    assert row.fence == Fence(1, 1)
    routes.reapply(row)
    asked = replace(BOTH, release_header="secret", release_key="the-key")
    assert gateway.desired_route("chat") == asked
    assert gateway.send("chat", 3, release="canary", key="the-key") == {CANARY.name: 3}
    # A release that knows nothing of it goes on.
    set_route(replace(BOTH, candidate_percent=0), fence=Fence(1, 2), actor=ANN)
    assert gateway.desired_route("chat") == replace(asked, candidate_percent=0)
    choose("off")
    routes.reapply(selectors.route("chat"))
    assert gateway.send("chat", 3, release="canary", key="the-key") == {STABLE.name: 3}
    assert actions() == ["route.set", "route.release_header", "route.set", "route.release_header"]
    assert "the-key" not in str(list(AuditRecord.objects.values()))


def test_a_writer_that_read_the_route_before_the_choice_was_changed_looks_again(
    gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_route(replace(BOTH, release_header="open"), fence=Fence(1, 1), actor=ANN)
    record = routes._record

    def changed_meanwhile(*arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(routes, "_record", record)
        choose("off")
        return record(*arguments, **options)

    monkeypatch.setattr(routes, "_record", changed_meanwhile)
    with pytest.raises(StaleRouteFence):
        reweigh(50, fence=Fence(1, 2), actor=ANN)
    row = reweigh(50, fence=Fence(1, 2), actor=ANN)
    assert (row.spec.release_header, row.candidate_percent) == ("off", 50)


def test_a_key_that_cannot_be_read_any_more_lets_nobody_choose(gateway: FakeGateway, settings: Any) -> None:
    spec = replace(BOTH, candidate_percent=0, release_header="secret", release_key="the-key")
    set_route(spec, fence=Fence(1, 1), actor=ANN)
    settings.SECRET_KEY = "another-" * 8
    routes.reapply(selectors.route("chat"))
    for key in ("the-key", ""):
        assert gateway.send("chat", 3, release="canary", key=key) == {STABLE.name: 3}


def test_a_change_of_the_share_tells_what_it_was(gateway: FakeGateway) -> None:
    set_route(BOTH, fence=Fence(1, 1), actor=ANN)
    row = reweigh(50, fence=Fence(1, 2), actor=ANN, reason="step 2")
    assert row.candidate_percent == 50
    wished = gateway.desired_route("chat")
    assert wished
    assert wished.candidate_percent == 50
    detail = AuditRecord.objects.order_by("seq").last().detail
    assert (detail["from"]["candidate_percent"], detail["to"]["candidate_percent"]) == (10, 50)


def test_repeating_a_wish_with_a_later_fence_is_no_news(gateway: FakeGateway) -> None:
    set_route(BOTH, fence=Fence(1, 1), actor=ANN)
    for turn in (1, 2, 3):
        reweigh(10, fence=Fence(1, turn), actor=ANN)
        set_route(BOTH, fence=Fence(1, turn), actor=ANN)
    assert actions() == ["route.set"]
    assert selectors.route("chat").fence == Fence(1, 3)
    with pytest.raises(StaleRouteFence):
        reweigh(90, fence=Fence(1, 2), actor=ANN)


def test_a_late_writer_changes_neither_row_nor_gateway(gateway: FakeGateway) -> None:
    set_route(BOTH, fence=Fence(2, 5), actor=ANN)
    for late in (Fence(2, 4), Fence(1, 99), Fence(0, 1)):
        with pytest.raises(StaleRouteFence):
            reweigh(90, fence=late, actor=ANN)
        with pytest.raises(StaleRouteFence):
            set_route(RouteSpec("chat", THIRD, None, 0), fence=late, actor=ANN)
        with pytest.raises(StaleRouteFence):
            routes.remove_route("chat", fence=late, actor=ANN)
    assert selectors.route("chat").spec == gateway.desired_route("chat") == BOTH
    assert actions() == ["route.set"]


def test_a_writer_that_read_before_another_wrote_is_refused(
    gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_route(BOTH, fence=Fence(1, 1), actor=ANN)
    record = routes._record

    def overtaken(*given: object, **options: object) -> Route:
        monkeypatch.setattr(routes, "_record", record)
        set_route(RouteSpec("chat", STABLE, THIRD, 5), fence=Fence(1, 1), actor=ANN)
        return record(*given, **options)

    monkeypatch.setattr(routes, "_record", overtaken)
    with pytest.raises(StaleRouteFence):
        reweigh(90, fence=Fence(1, 2), actor=ANN)
    assert selectors.route("chat").spec == RouteSpec("chat", STABLE, THIRD, 5)


def test_a_removed_route_is_remembered_by_its_fence(gateway: FakeGateway) -> None:
    set_route(BOTH, fence=Fence(3, 7), actor=ANN)
    routes.remove_route("chat", fence=Fence(3, 8), actor=ANN, reason="retired")
    routes.remove_route("chat", fence=Fence(3, 8), actor=ANN)
    assert gateway.desired_route("chat") is None
    assert actions() == ["route.set", "route.remove"]
    with pytest.raises(UnknownRoute):
        selectors.route("chat")
    with pytest.raises(UnknownRoute):
        reweigh(1, fence=Fence(3, 9), actor=ANN)
    with pytest.raises(StaleRouteFence):
        set_route(BOTH, fence=Fence(3, 7), actor=ANN)
    again = set_route(BOTH, fence=Fence(4, 1), actor=ANN)
    assert again.removed_at is None
    assert gateway.desired_route("chat") == BOTH


def test_removing_what_never_was_is_no_error(gateway: FakeGateway) -> None:
    routes.remove_route("nobody", fence=Fence(0, 1), actor=ANN)
    assert actions() == []


def test_a_wish_that_the_gateway_cannot_take_yet_is_kept_with_the_reason(gateway: FakeGateway) -> None:
    set_route(BOTH, fence=Fence(1, 1), actor=ANN)
    gateway.stop()
    before = Gateway.objects.get().wakes
    with pytest.raises(GatewayUnreachable):
        reweigh(50, fence=Fence(1, 2), actor=ANN)
    row = selectors.route("chat")
    assert row.candidate_percent == 50
    assert row.applied_at is None
    assert "stopped" in row.problem
    assert Gateway.objects.get().wakes == before + 1
    gateway.start()
    row = reweigh(50, fence=Fence(1, 3), actor=ANN)
    assert row.applied_at
    assert row.problem == ""


def test_a_route_that_the_gateway_refuses_is_taken_back(
    gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_route(BOTH, fence=Fence(1, 1), actor=ANN)

    def refuse(*_: object, **__: object) -> None:
        raise InvalidRoute("Envoy refuses this configuration: unknown cluster")

    monkeypatch.setattr(gateway, "set_route", refuse)
    with pytest.raises(InvalidRoute):
        set_route(RouteSpec("chat", CANARY, THIRD, 0), fence=Fence(1, 2), actor=ANN)
    row = selectors.route("chat")
    assert row.spec == BOTH
    assert row.fence == Fence(1, 2)
    assert "unknown cluster" in row.problem
    with pytest.raises(InvalidRoute):
        set_route(RouteSpec("new", CANARY, None, 0), fence=Fence(0, 1), actor=ANN)
    assert list(selectors.routes()) == [row]
    assert actions() == ["route.set", "route.set", "route.refused", "route.set", "route.refused"]


def test_what_cannot_be_a_route_is_refused_before_anything_is_written(gateway: FakeGateway) -> None:
    with pytest.raises(InvalidRoute):
        set_route(RouteSpec("chat", STABLE, None, 10), fence=Fence(0, 1), actor=ANN)
    assert not Route.objects.exists()
    set_route(RouteSpec("chat", STABLE, None, 0), fence=Fence(0, 1), actor=ANN)
    with pytest.raises(InvalidRoute):
        reweigh(10, fence=Fence(0, 2), actor=ANN)
    assert selectors.route("chat").fence == Fence(0, 1)


def test_the_database_refuses_a_share_without_a_candidate(gateway: FakeGateway) -> None:
    row = set_route(BOTH, fence=Fence(1, 1), actor=ANN)
    for wrong in ({"candidate_target": ""}, {"candidate_percent": 101}, {"candidate_target": "chat-1"}):
        with pytest.raises(IntegrityError), transaction.atomic():
            Route.objects.filter(pk=row.pk).update(**wrong)


def test_a_change_of_wish_is_told_after_the_commit(
    gateway: FakeGateway, django_capture_on_commit_callbacks
) -> None:
    told: list[RouteChanged] = []
    events.subscribe(RouteChanged, told.append)
    with django_capture_on_commit_callbacks(execute=True):
        row = set_route(BOTH, fence=Fence(1, 1), actor=ANN)
        set_route(BOTH, fence=Fence(1, 2), actor=ANN)
    assert told == [RouteChanged(row.pk)]
