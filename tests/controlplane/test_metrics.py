"""What Prometheus reads at /metrics."""

import math
import socket
from datetime import timedelta
from typing import Any

import pytest
import redis
from django.db import DatabaseError, connection, transaction
from django.test import Client
from django.utils import timezone

from accounts.models import WebhookEndpoint
from clusters.models import Cluster
from common import audit
from common.actor import Actor
from common.live.redis import breaker
from common.reconcile.pulses import ProcessIdentity, WorkDone, give
from controlplane.backup.last import ACTION
from controlplane.server import health_port
from gateway.history import minute_of, packed
from gateway.models import Gateway, Route, TrafficReading
from gateway.services.gateways import ensure_gateway
from gateway.states import GatewayKind
from gateway.traffic import TargetCounts
from model_store.models import CorruptBlob
from model_store.services import begin_check
from releases import metrics
from releases.models import Release
from tests.accounts.rights_matrix import Scene
from tests.cast import token_of
from tests.clusters.world import version_of
from tests.controlplane.metrics import Reading
from tests.valkey import ValkeyServer

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("parts")]

RELEASE = "releases.release"
QUERIES = 3 + 1 + 1 + 2 + 5 + 13 + 1 + 2 + 3 + 3 + 1 + 1 + 1 + 1 + 5 + 4
"""Releases, all kinds of rows, who takes them, for which hosts they wait, the fleet, its clusters and relays,
GPU health, healing and its statistics, the store, the record, webhooks, gateways, traffic and routes,
backups, jobs, optimised versions, objectives, capacity; credentials, slow services, tokens and budgets."""


def test_nobody_has_to_sign_in_and_nothing_is_kept_by_a_cache(client: Client) -> None:
    answer = client.get("/metrics")

    assert answer.status_code == 200
    assert answer["Content-Type"].startswith("text/plain")
    assert "no-store" in answer["Cache-Control"]


def test_the_parts_are_up_or_down_as_readyz_knows_them(client: Client) -> None:
    read = Reading(client)

    assert (read("part_up", part="database"), read("part_up", part="worker")) == (1, 0)


def test_releases_are_counted_in_every_state_there_is(client: Client, scene: Scene) -> None:
    Release.objects.filter(pk=scene.release.pk).update(state="stuck")

    read = Reading(client)

    assert read("releases", state="stuck") == 1
    assert read("releases", state="promoted") == 0


def test_rows_are_due_overdue_or_stuck_and_the_oldest_says_for_how_long(client: Client, scene: Scene) -> None:
    now = timezone.now()
    rows = Release.objects.filter(pk=scene.release.pk)

    rows.update(next_at=now - timedelta(seconds=40))
    read = Reading(client)
    assert (read("rows_due", kind=RELEASE), read("rows_overdue", kind=RELEASE)) == (
        1,
        1,
    )
    assert 40 <= (read("oldest_due_seconds", kind=RELEASE) or 0) < 60

    rows.update(lease_until=now + timedelta(seconds=30))
    read = Reading(client)
    assert (
        read("rows_due", kind=RELEASE),
        read("oldest_due_seconds", kind=RELEASE),
    ) == (0, 0)

    rows.update(stuck_at=now)
    assert Reading(client)("rows_stuck", kind=RELEASE) == 1


def test_workers_are_counted_by_cluster_and_state(client: Client, scene: Scene) -> None:
    cluster = scene.worker.deployment.cluster.name

    read = Reading(client)

    assert read("workers", cluster=cluster, state="ready") == 1
    assert read("workers", cluster=cluster, state="failed") == 0


def test_a_cluster_is_as_busy_as_its_workers_say(
    client: Client, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.clusters.test_fleet import beat

    cluster = scene.worker.deployment.cluster.name
    assert Reading(client)("cluster_busy_ratio", cluster=cluster) is None

    beats = {scene.worker.name: beat(busy=0.25)}
    monkeypatch.setattr("clusters.heartbeat_records.latest", lambda: beats)
    assert Reading(client)("cluster_busy_ratio", cluster=cluster) == 0.25


def test_files_of_the_store_that_are_damaged_are_counted(client: Client) -> None:
    check = begin_check(actor=Actor.system("test"))
    for number, state in enumerate(("lost", "lost", "repaired")):
        sha256 = f"{number:064x}"
        CorruptBlob.objects.create(found_by=check, sha256=sha256, size=1, detail="It is gone.", state=state)
    read = Reading(client)
    assert read("store_findings", state="lost") == 2
    assert read("store_findings", state="aside") == 0
    assert read("store_findings", state="repaired") is None


def test_the_audit_record_is_counted(client: Client) -> None:
    before = Reading(client)("audit_records_total")
    with transaction.atomic():
        audit.record(Actor.system("test"), "test.done", subject="nothing")

    assert Reading(client)("audit_records_total") == (before or 0) + 1


def test_the_approval_that_waits_longest_is_measured(client: Client, scene: Scene) -> None:
    asked = timezone.now() - timedelta(hours=5)
    release = scene.release
    release.steps.create(index=0, kind="analyse", started_at=asked - timedelta(days=1))
    release.steps.create(index=1, kind="approval", started_at=asked)
    rows = Release.objects.filter(pk=release.pk)
    rows.update(state="running", step_index=1)
    assert Reading(client)("release_approval_wait_seconds") == 0
    rows.update(state="waiting_approval")
    assert Reading(client)("release_approval_wait_seconds") == pytest.approx(5 * 3600, abs=60)
    rows.update(halt="abort")
    assert Reading(client)("release_approval_wait_seconds") == 0


def test_a_backup_is_measured_against_what_was_asked_for(client: Client, settings) -> None:
    read = Reading(client)
    assert (read("backup_age_seconds"), read("backup_age_limit_seconds")) == (None, None)
    settings.SLIPWAY_BACKUP_MAX_AGE_HOURS = 26
    with transaction.atomic():
        audit.record(Actor.system("backup"), ACTION, subject="20300101T000000Z")
    read = Reading(client)
    age = read("backup_age_seconds")
    assert age is not None
    assert 0 <= age < 60
    assert read("backup_age_limit_seconds") == 26 * 3600


def test_a_role_tells_the_pool_of_each_of_its_processes_and_who_has_a_token_may_read_it(
    scene: Scene, settings
) -> None:
    pool = {"in_use": 3, "idle": 1, "limit": 24, "waiting": 2}
    here = socket.gethostname()
    for pid, machine in ((41, here), (42, here), (43, "elsewhere")):
        give(ProcessIdentity("worker", "local", pid, machine), at=timezone.now(), work=WorkDone(pool=pool))
    settings.SLIPWAY_METRICS = "token"
    assert health_port.role_metrics("worker", "", "127.0.0.1", "")[0] == 401
    token = f"Bearer {token_of(scene.user)}"
    status, body, _ = health_port.role_metrics("worker", token, "127.0.0.1", "")
    assert status == 200
    text = body.decode()
    assert 'slipway_database_pool_connections{pid="41",role="worker",state="in_use"} 3.0' in text
    assert 'slipway_database_pool_waiting{pid="42",role="worker"} 2.0' in text
    assert 'pid="43"' not in text
    assert 'slipway_part_up{part="worker"}' in text
    assert "slipway_disk_free_bytes" in text
    settings.SLIPWAY_METRICS = "off"
    assert health_port.role_metrics("worker", token, "127.0.0.1", "")[0] == 404


def test_requests_are_counted_by_method_view_and_status(client: Client) -> None:
    def count(**labels: str) -> float:
        return Reading(client)("http_request_duration_seconds_count", **labels) or 0

    login = {"method": "GET", "view": "home", "status": "302"}
    unknown = {"method": "other", "view": "none", "status": "404"}
    before = count(**login), count(**unknown)

    client.get("/")
    client.generic("BREW", "/coffee/pots/1/")

    assert (count(**login), count(**unknown)) == (before[0] + 1, before[1] + 1)


def test_a_database_that_is_down_does_not_hide_that_it_is(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> dict[str, int]:
        raise DatabaseError("connection refused")

    monkeypatch.setattr(metrics, "count_by_state", fail)

    read = Reading(client)

    assert read("part_up", part="worker") == 0
    assert read("rows_due") is None
    assert read("http_request_duration_seconds_count") is not None


def test_a_reading_costs_the_same_however_much_there_is(
    client: Client, scene: Scene, django_assert_num_queries
) -> None:
    with django_assert_num_queries(QUERIES + (connection.vendor == "postgresql")):
        client.get("/metrics")
    _ = scene.release, scene.worker, version_of(scene.team, "another:v1")
    with django_assert_num_queries(QUERIES + (connection.vendor == "postgresql")):
        client.get("/metrics")


def test_releases_are_timed_by_how_they_ended(client: Client, scene: Scene) -> None:
    began = timezone.now() - timedelta(days=1)
    Release.objects.filter(pk=scene.release.pk).update(
        state="rolled_back", created_at=began, ended_at=began + timedelta(minutes=20)
    )
    read = Reading(client)

    def at_most(bound: str) -> float | None:
        return read("release_duration_seconds_bucket", outcome="rolled_back", le=bound)

    assert (at_most("900.0"), at_most("1800.0"), at_most("+Inf")) == (0, 1, 1)
    assert read("release_duration_seconds_sum", outcome="rolled_back") == 1200
    assert read("release_duration_seconds_count", outcome="promoted") == 0


def test_what_each_version_answers_is_told_as_it_was_kept_last(client: Client, scene: Scene) -> None:
    assert Reading(client)("service_requests_total") is None
    now = timezone.now()
    cluster = scene.worker.deployment.cluster
    route = Route.objects.create(
        gateway=ensure_gateway(cluster, actor=Actor.system("test")),
        service="chat",
        stable_target="chat-1",
        stable_version="chat:v1",
        writer=0,
        writer_turn=0,
        changed_at=now,
    )
    for minutes, requests in ((2, 10), (1, 25)):
        counts = counted(requests=requests, errors=3)
        kept = packed({"chat-1": counts, "gone": counts})
        TrafficReading.objects.create(route=route, at=now, minute=minute_of(now) - minutes, counts=kept)
    read = Reading(client)
    labels = {"service": "chat", "version": "chat:v1", "side": "stable", "epoch": "1"}
    assert read("service_requests_total", **labels) == read("service_requests_total") == 25
    assert read("service_errors_total", **labels) == 3
    assert read("service_request_duration_seconds_bucket", le="0.1", **labels) == 7
    assert read("service_request_duration_seconds_bucket", le="+Inf", **labels) == 9


def test_a_gateway_is_up_or_down_as_it_was_seen_lately(client: Client, scene: Scene) -> None:
    cluster = scene.worker.deployment.cluster
    gateway = ensure_gateway(cluster, actor=Actor.system("test"))
    rows = Gateway.objects.filter(pk=gateway.pk)

    def up(**changes: Any) -> float | None:
        rows.update(**changes)
        return Reading(client)("gateway_up", cluster=cluster.name)

    now = timezone.now()
    assert up(seen_at=now, is_healthy=True) == 1
    assert up(is_healthy=False) == 0
    assert up(seen_at=now - timedelta(minutes=2)) is None
    # An API server that does not answer says nothing of the Gateway behind it; an Envoy here is down.
    Cluster.objects.filter(pk=cluster.pk).update(problem="It does not answer.")
    assert up(seen_at=now, kind=GatewayKind.GATEWAY_API) is None
    assert up(kind=GatewayKind.ENVOY) == 0


def test_a_cluster_takes_orders_or_not(client: Client, scene: Scene) -> None:
    cluster = scene.worker.deployment.cluster
    rows = Cluster.objects.filter(pk=cluster.pk)
    assert Reading(client)("cluster_takes_orders", cluster=cluster.name) == 1
    rows.update(problem="It does not answer.")
    assert Reading(client)("cluster_takes_orders", cluster=cluster.name) == 0
    rows.update(removal_asked_at=timezone.now())
    assert Reading(client)("cluster_takes_orders", cluster=cluster.name) is None


def test_what_waits_in_a_lane_that_hangs_is_due_and_not_overdue(client: Client, scene: Scene) -> None:
    rows = Release.objects.filter(pk=scene.release.pk)
    rows.update(next_at=timezone.now() - timedelta(minutes=6), lane="cluster:west")
    read = Reading(client)
    assert (read("rows_overdue", kind=RELEASE), read("rows_due", kind=RELEASE)) == (1, 1)
    assert (read("oldest_due_seconds", kind=RELEASE) or 0) > 300
    give(
        ProcessIdentity("worker", "local", 41, "here"),
        at=timezone.now(),
        work=WorkDone(hung=("cluster:west",)),
    )
    read = Reading(client)
    assert (read("rows_overdue", kind=RELEASE), read("rows_due", kind=RELEASE)) == (0, 1)
    assert read("oldest_due_seconds", kind=RELEASE) == 0


def counted(*, requests: int, errors: int) -> TargetCounts:
    nothing = dict.fromkeys(("broken", "abandoned", "forced_requests", "forced_errors", "in_flight"), 0)
    return TargetCounts(
        epoch="1",
        since=timezone.now(),
        routed=requests,
        requests=requests,
        errors=errors,
        latency_ms=((100.0, 7), (math.inf, 9)),
        first_byte_ms=(),
        **nothing,
    )


def test_webhook_endpoints_that_fail_are_counted(client: Client) -> None:
    now = timezone.now()
    for enabled, failing_since in ((True, None), (True, now), (False, now)):
        WebhookEndpoint.objects.create(
            url="https://hooks.example/", sealed_secret="x", enabled=enabled, failing_since=failing_since
        )
    read = Reading(client)
    assert [read("webhook_endpoints", state=state) for state in ("ok", "failing", "disabled")] == [1, 1, 1]


def test_disks_are_told_by_place_and_a_bucket_has_none(client: Client, settings) -> None:
    read = Reading(client)
    size, free = read("disk_size_bytes", place="home"), read("disk_free_bytes", place="home")
    assert size is not None
    assert free is not None
    assert 0 < free < size
    settings.SLIPWAY_STORE = "s3://bucket/"
    assert Reading(client)("disk_size_bytes", place="store") is None


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has no server")
def test_connections_are_counted_by_the_server(client: Client) -> None:
    read = Reading(client)
    assert (read("database_connections") or 0) >= 1
    assert (read("database_connections_limit") or 0) > 10


def test_the_queue_is_as_long_as_the_broker_says(
    client: Client, settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = ValkeyServer()
    server.start()
    try:
        settings.REDIS_URL = server.url
        monkeypatch.setattr(breaker, "_silent_until", 0.0)
        with redis.Redis.from_url(server.url) as broker:
            broker.lpush("celery", "one", "two")
        assert Reading(client)("queue_messages", queue="celery") == 2
    finally:
        server.remove()
