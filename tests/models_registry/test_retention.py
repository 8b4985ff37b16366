"""Retention rules: what they keep and why, and that nothing goes which nobody has seen or somebody needs."""

from datetime import timedelta

import pytest
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from accounts.actors import of_user
from accounts.errors import RightMissing
from common.errors import Invalid, WrongState
from common.models import AuditRecord
from common.reconcile import Operation
from model_store.errors import RunUnderWay
from models_registry import references, retention
from models_registry.errors import PreviewOutdated
from models_registry.models import RetentionRule, Version
from models_registry.reconcilers.retention import ApplyRetention, RetentionReconciler
from models_registry.selectors import retention as retention_selectors
from models_registry.services import aliases
from models_registry.services import retention as retention_services
from tests import cast
from tests.crash.harness import Checkpoints, die, dies, worker
from tests.models_registry.uses import used_by

NOW = timezone.now()


def version(number: int, *, days: float) -> Version:
    return Version(
        pk=number, number=number, name=f"v{number}", size_bytes=1, ready_at=NOW - timedelta(days=days)
    )


@given(
    ages=st.lists(st.integers(0, 50), max_size=12),
    keep_last=st.integers(1, 12),
    keep_days=st.integers(0, 50),
    needed=st.sets(st.integers(1, 12)),
)
def test_a_version_goes_exactly_if_nothing_keeps_it(ages, keep_last, keep_days, needed) -> None:
    versions = [version(number, days=age) for number, age in enumerate(ages, start=1)]
    verdicts = retention.judged(
        versions,
        keep_last=keep_last,
        keep_days=keep_days,
        needed={number: ["alias x"] for number in needed},
        now=NOW,
    )
    assert [one.version for one in verdicts] == versions
    for place, (one, age) in enumerate(zip(verdicts, ages, strict=True)):
        stays = place < keep_last or age < keep_days or one.version.pk in needed
        assert one.goes is not stays
        assert one.reasons
    assert not verdicts or not verdicts[0].goes


def test_every_verdict_says_why() -> None:
    found = retention.judged(
        [version(3, days=1), version(2, days=9), version(1, days=9)],
        keep_last=1,
        keep_days=2,
        needed={2: ["alias production", "service chat (stable)"]},
        now=NOW,
    )
    assert [one.reasons for one in found] == [
        ("the newest", "ready for less than 2 days"),
        ("alias production", "service chat (stable)"),
        (
            "older than the newest version",
            "ready for 2 days or more",
            "no alias, service or release needs it",
        ),
    ]


@pytest.fixture
def versions(library, actor, model) -> list[Version]:
    """Five ready ones, oldest first; they share all files but one."""
    return [library.ready(actor, model, f"m{fill}", fill=bytes([fill])) for fill in range(1, 6)]


@pytest.fixture
def rule(actor, model, versions) -> RetentionRule:
    return retention_services.set_retention(actor=actor, model=model, keep_last=2)


def live(model) -> list[str]:
    return [one.name for one in Version.objects.live().filter(model=model).order_by("number")]


def seen(rule: RetentionRule) -> str:
    return retention_selectors.retention_preview(rule, timezone.now()).fingerprint


pytestmark = pytest.mark.django_db


def test_a_rule_deletes_nothing_before_it_is_applied(library, model, rule) -> None:
    library.retain()
    assert live(model) == ["v1", "v2", "v3", "v4", "v5"]


def test_a_preview_tells_what_only_the_going_ones_hold(rule, versions) -> None:
    preview = retention_selectors.retention_preview(rule, timezone.now())
    assert [one.name for one in preview.going] == ["v3", "v2", "v1"]
    assert preview.going_bytes == sum(one.size_bytes for one in versions[:3])
    weights = versions[0].files.get(path="model.safetensors").size
    assert preview.freed_bytes == 3 * weights


def test_an_applied_rule_deletes_what_was_seen_with_an_audit_row_each(library, actor, model, rule) -> None:
    retention_services.apply_retention(actor=actor, rule=rule, preview=seen(rule), reason="Full disk.")
    library.retain()
    assert live(model) == ["v4", "v5"]
    rows = AuditRecord.objects.filter(action="version.delete").order_by("seq")
    assert [row.actor for row in rows] == ["retention rule"] * 3
    assert rows[0].reason == "The rule keeps the last 2 versions. Applied by ada. Full disk."
    rule.refresh_from_db()
    assert (rule.asked, rule.is_daily, rule.last_deleted_versions) == (None, False, 3)
    assert AuditRecord.objects.get(action="retention.ran").detail["versions"] == 3


def test_what_an_alias_a_service_or_a_way_back_needs_stays(library, actor, model, rule, versions) -> None:
    aliases.set_alias(actor=actor, model=model, alias="production", version=versions[0])
    references.register_uses(used_by(versions[1], "service chat (stable)"))
    references.register_fallback_check(lambda: {versions[2].pk: ["the way back of service chat"]})
    preview = retention_selectors.retention_preview(rule, timezone.now())
    assert not preview.going
    assert [one.reasons for one in preview.verdicts][2:] == [
        ("the way back of service chat",),
        ("service chat (stable)",),
        ("alias production",),
    ]


def test_what_somebody_begins_to_need_after_the_order_stays(library, actor, model, rule, versions) -> None:
    retention_services.apply_retention(actor=actor, rule=rule, preview=seen(rule))
    aliases.set_alias(actor=actor, model=model, alias="production", version=versions[1])
    library.retain()
    assert live(model) == ["v2", "v4", "v5"]


def test_an_order_for_something_else_than_what_goes_by_now_is_refused(library, actor, model, rule) -> None:
    preview = seen(rule)
    library.ready(actor, model, "m6", fill=b"\x06")
    with pytest.raises(PreviewOutdated, match="changed since the preview"):
        retention_services.apply_retention(actor=actor, rule=rule, preview=preview)


def test_what_falls_under_the_rule_after_the_order_waits_for_the_next_one(
    library, actor, model, rule
) -> None:
    retention_services.apply_retention(actor=actor, rule=rule, preview=seen(rule))
    library.ready(actor, model, "m6", fill=b"\x06")
    library.retain()
    assert live(model) == ["v4", "v5", "v6"]


def test_a_daily_rule_acts_once_a_day(library, actor, model, rule) -> None:
    retention_services.apply_retention(actor=actor, rule=rule, preview=seen(rule), daily=True)
    kernel = worker([RetentionReconciler()], library.clock)
    kernel.sweep()
    assert live(model) == ["v4", "v5"]
    library.ready(actor, model, "m6", fill=b"\x06")
    library.clock.pass_(timedelta(hours=22))
    kernel.sweep()
    assert live(model) == ["v4", "v5", "v6"]
    library.clock.pass_(timedelta(hours=2))
    kernel.sweep()
    assert live(model) == ["v5", "v6"]


def test_a_changed_rule_is_a_draft_again(library, actor, model, rule) -> None:
    retention_services.apply_retention(actor=actor, rule=rule, preview=seen(rule), daily=True)
    changed = retention_services.set_retention(actor=actor, model=model, keep_last=1)
    assert (changed.pk, changed.is_daily, changed.asked) == (rule.pk, False, None)
    library.retain()
    assert live(model) == ["v1", "v2", "v3", "v4", "v5"]
    with pytest.raises(WrongState, match="not being applied"):
        retention_services.stop_retention(actor=actor, rule=changed)


def test_a_rule_is_applied_once_at_a_time(actor, rule) -> None:
    retention_services.apply_retention(actor=actor, rule=rule, preview=seen(rule))
    with pytest.raises(RunUnderWay):
        retention_services.apply_retention(actor=actor, rule=rule, preview=seen(rule))


def test_a_rule_that_is_stopped_while_it_acts_deletes_nothing_more(
    library, actor, model, rule, monkeypatch
) -> None:
    retention_services.apply_retention(actor=actor, rule=rule, preview=seen(rule))
    remove = ApplyRetention._remove

    def remove_and_stop(row: RetentionRule, version: Version, operation: Operation) -> None:
        remove(row, version, operation)
        retention_services.stop_retention(actor=actor, rule=RetentionRule.objects.get(pk=rule.pk))

    monkeypatch.setattr(ApplyRetention, "_remove", staticmethod(remove_and_stop))
    library.retain()
    assert live(model) == ["v1", "v2", "v4", "v5"]


@pytest.mark.slow
def test_a_run_survives_a_crash_at_any_point(library, actor, model) -> None:
    rule = retention_services.set_retention(actor=actor, model=model, keep_last=1)
    library.ready(actor, model, fill=b"\xff")
    point = 0
    while True:
        point += 1
        for _ in range(2):
            library.ready(actor, model, fill=bytes([point]))
        retention_services.apply_retention(actor=actor, rule=rule, preview=seen(rule))
        kernel = worker([RetentionReconciler()], library.clock, Checkpoints(at=point, then=die))
        if not dies(kernel, library.clock):
            break
        library.retain()
        rule.refresh_from_db()
        assert (rule.asked, rule.last_deleted_versions, rule.deleted_versions) == (None, 2, 0)
        assert len(live(model)) == 1
        assert AuditRecord.objects.filter(action="retention.ran").count() == point
    assert point > 5


def test_a_rule_needs_sane_numbers_and_the_right(actor, model) -> None:
    with pytest.raises(Invalid, match="keep_last"):
        retention_services.set_retention(actor=actor, model=model, keep_last=0)
    with pytest.raises(Invalid, match="keep_days"):
        retention_services.set_retention(actor=actor, model=model, keep_last=1, keep_days=-1)
    viewer = of_user(cast.person("vi", vision="viewer"))
    with pytest.raises(RightMissing):
        retention_services.set_retention(actor=viewer, model=model, keep_last=1)
