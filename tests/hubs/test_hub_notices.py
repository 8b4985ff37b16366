"""A hub tells of a change by its webhook, and is asked what is new."""

from datetime import timedelta

import pytest
from django.test import Client

from hubs.models import HubSource, HubSync
from hubs.services import notices, syncs
from tests import cast
from tests.models_registry import builders as b
from tests.models_registry.conftest import REPO

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]


def notice(source: HubSource, secret: str) -> int:
    body = {"event": {"action": "update", "scope": "repo.content"}, "repo": {"name": REPO}}
    visitor = Client(enforce_csrf_checks=True)
    answer = visitor.post(
        f"/hub-notices/{source.pk}/", body, "application/json", headers={"X-Webhook-Secret": secret}
    )
    return int(answer.status_code)


def test_a_notice_with_the_secret_makes_one_sync_and_later_ones_gather(hubs, ada, actor, source) -> None:
    answer = cast.api(ada).post(f"hub-sources/{source.pk}/notice-secret/")
    assert answer["Cache-Control"] == "no-store"
    assert answer.json()["address"] == f"http://testserver/hub-notices/{source.pk}/"
    secret = answer.json()["secret"]
    assert secret not in str(HubSource.objects.values())
    assert [notice(source, secret) for _ in range(3)] == [202, 202, 202]
    hubs.library.clock.pass_(timedelta(seconds=10))
    hubs.sweep()
    sync = HubSync.objects.get()
    assert (sync.state, sync.author_name, sync.is_scheduled) == ("done", "notice of the hub", True)
    assert HubSource.objects.get().due_at is None


def test_what_the_schedule_begins_after_a_notice_is_the_schedule_s_again(hubs, actor, source) -> None:
    secret = notices.new_notice_secret(actor=actor, source=source)
    syncs.change_hub_source(actor=actor, source=source, every=3600)
    hubs.sweep()
    assert notice(source, secret) == 202
    hubs.library.clock.pass_(timedelta(seconds=10))
    hubs.sweep()
    hubs.library.clock.pass_(timedelta(hours=2))
    hubs.sweep()
    begun = HubSync.objects.order_by("pk").values_list("author_name", flat=True)
    assert list(begun) == ["schedule", "notice of the hub", "schedule"]


def test_a_notice_is_heeded_after_an_interrupted_sync_has_gone_on(hubs, actor, source) -> None:
    secret = notices.new_notice_secret(actor=actor, source=source)
    held = b.model_files() | {"model.safetensors": b.weights(50_000)}
    hubs.server.repository(REPO).commit(held)
    hubs.server.faults.cut_after = [150_000] + [0] * 50
    syncs.change_hub_source(actor=actor, source=source, every=86_400)
    hubs.sweep()
    assert HubSync.objects.get().state == "interrupted"
    hubs.server.faults.cut_after = []
    hubs.server.repository(REPO).commit(b.model_files(b"\x02"))
    assert notice(source, secret) == 202
    hubs.library.clock.pass_(timedelta(seconds=10))
    hubs.sweep(8)
    assert [sync.version.name for sync in HubSync.objects.order_by("pk")] == ["v1", "v2"]
    assert HubSource.objects.get().due_at > hubs.library.clock()


def test_a_notice_is_heeded_although_the_schedule_ends(hubs, actor, source) -> None:
    secret = notices.new_notice_secret(actor=actor, source=source)
    syncs.change_hub_source(actor=actor, source=source, every=3600)
    hubs.sweep()
    hubs.server.repository(REPO).commit(b.model_files(b"\x02"))
    assert notice(source, secret) == 202
    syncs.change_hub_source(actor=actor, source=HubSource.objects.get(), every=None)
    hubs.library.clock.pass_(timedelta(seconds=10))
    hubs.sweep()
    assert [sync.version.name for sync in HubSync.objects.order_by("pk")] == ["v1", "v2"]


def test_a_change_while_a_sync_runs_is_fetched_after_it(hubs, actor, source) -> None:
    secret = notices.new_notice_secret(actor=actor, source=source)
    syncs.start_sync(actor=actor, source=source)
    hubs.worker(start=lambda job: None).sweep()
    hubs.server.repository(REPO).commit(b.model_files(b"\x02"))
    assert notice(source, secret) == 202
    hubs.sweep(8)
    assert [sync.version.name for sync in HubSync.objects.order_by("pk")] == ["v1", "v2"]


def test_a_notice_without_the_present_secret_is_answered_as_one_to_nobody(hubs, actor, source) -> None:
    assert notice(source, "") == 404
    first = notices.new_notice_secret(actor=actor, source=source)
    second = notices.new_notice_secret(actor=actor, source=source)
    assert [notice(source, secret) for secret in ("", "wrong", first)] == [404, 404, 404]
    assert HubSource.objects.get().due_at is None
    assert notice(source, second) == 202
    syncs.delete_hub_source(actor=actor, source=HubSource.objects.get())
    assert notice(source, second) == 404
    assert HubSource.objects.get().due_at is None


def test_the_page_shows_a_new_secret_once(hubs, ada, source) -> None:
    browser = Client()
    browser.force_login(ada)
    url = f"/models/tiny/+hub/{source.pk}/"
    assert "Make a secret" in browser.get(url).content.decode()
    shown = browser.post(f"{url}+secret/")
    assert (shown.status_code, shown["Cache-Control"]) == (201, "no-store")
    assert notice(source, shown.context["secret"]) == 202
    page = browser.get(url).content.decode()
    assert "New secret" in page
    assert shown.context["secret"] not in page
