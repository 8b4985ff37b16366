"""Which outside system each kind of row waits for, and how a hung one is told."""

import pytest
from django.test import Client
from django.utils import timezone

from accounts.models import WebhookEndpoint
from accounts.services.webhooks import change_webhook, create_webhook
from clusters.models import Cluster, Deployment
from common.models import Pulse
from common.reconcile import Reconciled, kernel
from controlplane import health
from hubs.models import HubSource, HubSync
from releases.models import Release, Service
from releases.plans.builtin import builtin_plan
from tests.cast import SYSTEM

PRAGUE = Cluster(name="prague", kind="kubernetes")
HUB = HubSource(endpoint="https://hub.example:8443")


def release(step: str, **columns: object) -> Release:
    plan = builtin_plan("canary")
    steps = [one.kind for one in plan.steps]
    columns = {"state": "running", "plan": plan.model_dump(mode="json"), **columns}
    row = Release(service=Service(cluster=PRAGUE), step_index=steps.index(step), **columns)
    row.has_freezes = False  # type: ignore[attr-defined]  # as the reconciler reads it
    return row


@pytest.mark.parametrize(
    ("row", "lane"),
    [
        (PRAGUE, "cluster:prague"),
        (Deployment(cluster=PRAGUE), "cluster:prague"),
        (WebhookEndpoint(url="https://hooks.example.org/secret"), "webhook:hooks.example.org"),
        (HubSync(source=HUB, state="resolving"), "hub:hub.example:8443"),
        (HubSync(source=HUB, state="fetching"), ""),
        (release("smoke_test"), "cluster:prague"),
        (release("smoke_test", halt="abort"), ""),
        (release("deploy"), ""),
    ],
)
def test_a_row_waits_in_the_lane_of_the_system_that_its_next_step_asks(row: Reconciled, lane: str) -> None:
    assert kernel.reconciler(row._meta.label_lower).lane_of(row) == lane


@pytest.mark.django_db(transaction=True)
def test_a_webhook_with_a_new_address_leaves_the_lane_of_the_old_one() -> None:
    endpoint = create_webhook(actor=SYSTEM, url="https://dead.example.org/").endpoint
    WebhookEndpoint.objects.update(lane="webhook:dead.example.org")
    endpoint.refresh_from_db()
    change_webhook(actor=SYSTEM, endpoint=endpoint, url="https://alive.example.org/")
    assert [one.lane for one in kernel.due() if one.kind == "accounts.webhookendpoint"] == [""]


@pytest.mark.django_db
def test_hung_lanes_are_named_in_readiness_and_measures(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (1, 2):
        Pulse.objects.create(
            name=f"sweeper@here:{number}",
            role="sweeper",
            pid=number,
            at=timezone.now(),
            hung=["cluster:prague", "hub:hub.example"][:number],
        )
    monkeypatch.setattr(health.parts_health, "__defaults__", ((),))

    assert str(health._sweeper()).endswith("; steps hang at cluster:prague, hub:hub.example")
    lines = client.get("/metrics").content.decode().splitlines()
    assert [line for line in lines if line.startswith("slipway_lane_hung{")] == [
        'slipway_lane_hung{lane="cluster:prague"} 2.0',
        'slipway_lane_hung{lane="hub:hub.example"} 1.0',
    ]
