"""Every event that the wiring knows is told by its name, with the document that REST shows."""

import re

import orjson
import pytest
from django.conf import settings
from django.db import transaction
from django.utils import timezone

from accounts.models import WebhookDelivery, WebhookEndpoint, WebhookEvent
from accounts.reconcilers.webhooks import WebhookEventReconciler
from accounts.services.webhooks import create_webhook, send_test
from clusters.events import DeploymentDegraded, WorkerLost
from common import tasks
from common.disk_watch import DiskFilled
from common.events import publish
from common.reconcile import StuckRow, taking
from common.webhooks import catalogue
from models_registry.events import VersionReady
from models_registry.services import aliases
from releases.events import ApprovalAsked, ReleaseEnded, ReleaseMoved
from tests.accounts.rights_matrix import Scene
from tests.cast import SYSTEM
from tests.crash.harness import Clock, worker

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("import_root")]


@pytest.fixture
def import_root(tmp_path, settings) -> None:
    settings.SLIPWAY_IMPORT_ROOTS = (tmp_path,)


@pytest.fixture
def scene() -> Scene:
    scene = Scene.of_superuser()
    create_webhook(actor=SYSTEM, url="https://hooks.example.org/", team=scene.team)
    return scene


def told() -> list[dict]:
    worker([WebhookEventReconciler()], Clock(timezone.now())).sweep()
    return [orjson.loads(one.event.body) for one in WebhookDelivery.objects.order_by("pk")]


def shown(scene: Scene, path: str) -> dict:
    return orjson.loads(scene.api.get(path).content)


def test_a_release_that_waits_is_told_with_its_document(scene):
    release = scene.release
    with transaction.atomic():
        publish(ReleaseMoved(release.pk, release.service_id))
        publish(ApprovalAsked(release.pk, release.step_index))
        publish(ReleaseEnded(release.pk, release.service_id, "failed"))
    bodies = told()
    assert [body["type"] for body in bodies] == ["release.moved", "release.waiting_approval", "release.ended"]
    document = shown(scene, f"releases/{release.pk}/")
    for body in bodies:
        assert body["data"]["release_id"] == release.pk
        assert set(body["data"]["release"]) == set(document)
        assert body["data"]["release"]["state"] == "waiting_approval"
    assert bodies[2]["data"]["state"] == "failed"


def test_versions_aliases_deployments_and_workers_are_told_with_their_documents(scene):
    version, loaded = scene.version(), scene.worker
    alias = aliases.set_alias(
        actor=SYSTEM, model=scene.model, alias="production", version=version, reason="x"
    )
    with transaction.atomic():
        publish(VersionReady(version.pk))
        publish(DeploymentDegraded(loaded.deployment_id))
        publish(WorkerLost(loaded.pk))
    moved, ready, degraded, lost = (body["data"] for body in told())
    assert (moved["model"], moved["move"]["to_version"]) == (scene.model.name, alias.version.name)
    assert ready["version"] == shown(scene, f"models/{scene.model.name}/versions/")["results"][0]
    assert degraded["deployment"] == shown(scene, f"deployments/{loaded.deployment.name}/")
    assert (lost["worker"], lost["deployment"]) == (loaded.name, degraded["deployment"])


def test_what_got_stuck_is_for_the_installation_alone(scene):
    with transaction.atomic():
        publish(StuckRow("releases.release", 1))
    assert told() == []
    create_webhook(actor=SYSTEM, url="https://hooks.example.org/all")
    with transaction.atomic():
        publish(StuckRow("releases.release", 1))
    assert [body["data"] for body in told()] == [{"kind": "releases.release", "id": 1}]


def test_a_full_disk_is_told_to_the_installation_with_its_figures(scene):
    create_webhook(actor=SYSTEM, url="https://hooks.example.org/all")
    with transaction.atomic():
        publish(DiskFilled("node-a", "/srv/slipway", "low", 0, 10_000))
    (body,) = told()
    figures = {
        "host": "node-a",
        "path": "/srv/slipway",
        "before": "low",
        "free_bytes": 0,
        "total_bytes": 10_000,
    }
    assert (body["type"], body["data"]) == ("disk.full", figures)


def test_every_event_that_it_tells_of_is_noted_under_its_name_with_its_own_ids(monkeypatch):
    noted = {}
    monkeypatch.setattr(catalogue, "_announce", [lambda name, **ids: noted.update({name: set(ids)})])
    told = {event.name: event for event in catalogue.known().values() if event.on}
    assert len(told) >= 20
    for event in told.values():
        fields = dict.fromkeys(event.on.__dataclass_fields__, 1)
        with transaction.atomic():
            publish(event.on(**fields))
        assert noted[event.name] == set(event.ids or fields)
    assert set(noted) | {"webhook.disabled", "audit.head", "session.break_glass"} == set(catalogue.known())


def test_what_is_gone_meanwhile_is_not_told(scene):
    with transaction.atomic():
        publish(VersionReady(999_999))
    assert told() == []
    assert not WebhookEvent.objects.exists()


def test_who_hears_a_bell_does_not_wait_for_a_receiver(scene, monkeypatch):
    endpoint = WebhookEndpoint.objects.get()
    offered, rung = [], []
    monkeypatch.setattr("accounts.services.webhooks.post", lambda *_, **__: pytest.fail("It waits."))
    monkeypatch.setattr(tasks.advance, "delay", lambda *due: rung.append(due))
    monkeypatch.setattr(tasks, "_silent_until", 0.0)
    monkeypatch.setattr(taking, "offer", offered.append)

    send_test(actor=SYSTEM, endpoint=endpoint)
    for due in rung:  # the first puts the row in its lane, and rings there
        tasks.advance(*due)
    assert [due[2] for due in rung] == ["", "webhook:hooks.example.org"]
    assert [(row.id, row.lane) for row in offered] == [(endpoint.pk, "webhook:hooks.example.org")]
    endpoint.refresh_from_db()
    assert (endpoint.attempts, endpoint.lane) == (0, "webhook:hooks.example.org")


def test_the_documentation_lists_every_type():
    lines = (settings.BASE_DIR / "docs" / "WEBHOOKS.md").read_text().splitlines()
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in lines
        if re.match(r"\| `\w+\.", line)
    ]
    assert {row[0].strip("`"): row[1] for row in rows} == {
        name: known.description for name, known in catalogue.known().items()
    }
