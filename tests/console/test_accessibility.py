"""Every page of the console passes axe, in both themes, with something on it."""

import json

import pytest

from tests.console.conftest import Tab
from tests.console.server import ConsoleServer
from tests.console.test_styleguide import faults

pytestmark = pytest.mark.browser

FILL = """
import json
from pathlib import Path
from django.conf import settings
from django.db import transaction
from django.utils import timezone
Path(settings.SLIPWAY_IMPORT_ROOTS[-1]).mkdir(exist_ok=True)
from common.audit import record
from clusters.models import Deployment, Worker
from releases.models import ReleaseStep
from tests.accounts.rights_matrix.scene import Scene
from tests.cast import SYSTEM
scene = Scene.of_superuser()
scene.user.first_name, scene.user.email = "Ada", "ada@example.org"
scene.user.save()
scene.member, scene.alias, scene.trusted_key, scene.signature_policy, scene.exemption, scene.rule
scene.deprecated_image, scene.paused_release
with transaction.atomic():
    record(SYSTEM, "release.start", subject=scene.release, reason="Try it.", detail={"plan": "canary"})
deployment = Deployment.objects.create(
    name="chat-1", cluster=scene.cluster, team=scene.team, service="chat", version=scene.version(),
    version_label="chat:v1", engine="echo", replicas=1, slots=1,
)
worker = Worker.objects.create(
    deployment=deployment, uid="chat-1-0", name="chat-1-0", state="ready", state_since=timezone.now()
)
sync = scene.sync("failed")
model, version = scene.model.name, scene.version().name
print(json.dumps([
    "/", "/models/", f"/models/{model}/", f"/models/{model}/+aliases/",
    f"/models/{model}/+hub/{sync.source_id}/", f"/models/{model}/+retention/", f"/models/{model}/{version}/",
    f"/models/{model}/+compare/?version={version}&version=v2", "/models/+store/",
    "/services/", "/services/+new/", f"/services/{scene.service.name}/", "/releases/",
    f"/releases/{scene.release.pk}/", "/settings/plans/+new/?from=canary",
    f"/settings/plans/{scene.team.name}/{scene.plan.name}/",
    "/images/", f"/images/{scene.image.name}/", "/images/+fit/",
    "/fleet/", "/fleet/workers/", f"/fleet/deployments/{deployment.name}/", f"/fleet/workers/{worker.name}/",
    "/audit/", "/settings/account/", "/settings/tokens/+new/", "/settings/people/",
    f"/settings/people/{scene.user.username}/", f"/settings/teams/{scene.team.name}/", "/settings/teams/",
    f"/settings/teams/{scene.team.name}/signatures/", f"/settings/webhooks/{scene.webhook.pk}/",
    f"/settings/webhooks/{scene.webhook.pk}/deliveries/{scene.delivery.pk}/", "/api/docs/",
]))
"""


@pytest.fixture(scope="module")
def pages(server: ConsoleServer) -> list[str]:
    return json.loads(server.run(FILL))


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_every_page_passes_axe_in_both_themes_and_on_a_phone(tab: Tab, pages: list[str]) -> None:
    found = {}
    for path in pages:
        tab.page.set_viewport_size({"width": 1280, "height": 800})
        answer = tab.page.goto(tab.url + path)
        assert answer is not None
        at_fault = faults(tab) if answer.status == 200 else [f"answers {answer.status}"]
        tab.page.set_viewport_size({"width": 390, "height": 844})
        tab.page.evaluate("window.dispatchEvent(new CustomEvent('slipway:theme', {detail: 'dark'}))")
        at_fault += faults(tab, only=["color-contrast", "link-in-text-block", "scrollable-region-focusable"])
        tab.page.evaluate("window.dispatchEvent(new CustomEvent('slipway:theme', {detail: 'light'}))")
        if at_fault:
            found[path] = at_fault
    assert found == {}
