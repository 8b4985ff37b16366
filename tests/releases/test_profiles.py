"""A CPU profile of a worker that serves, taken from its page."""

import json
import threading
from pathlib import Path

import httpx2
import pytest
from django.test import Client

from accounts.states import Role
from clusters.models import Worker
from common.models import AuditRecord
from tests.releases.browsing import as_person
from tests.releases.world import Scene
from tests.serving.runtime.rig import service

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.process]

APP = """
from slipway import serve

app = serve.App(processes=1)

def spin_for_the_profile(n):
    return sum(one * one for one in range(n))

@app.post("/spin")
def spin(request):
    return spin_for_the_profile(3_000_000)
"""


def take(client: Client, worker: str, seconds: str = "5"):
    return client.post(f"/fleet/workers/{worker}/+profile/", {"seconds": seconds})


def test_a_profile_shows_where_a_services_code_spends_its_time(scene: Scene, tmp_path: Path) -> None:
    name = "chat-1-0"
    operator = as_person("otto", scene, Role.OPERATOR)
    with service(tmp_path / "app", APP) as running:
        row = Worker.objects.filter(deployment__name=scene.service.stable_deployment).earliest("pk")
        Worker.objects.filter(pk=row.pk).update(name=name, pid=running.process.pid)
        is_over = threading.Event()

        def load() -> None:
            while not is_over.is_set():
                httpx2.post(f"{running.url}/spin", json={}, timeout=30)

        loading = threading.Thread(target=load)
        loading.start()
        try:
            answer = take(operator, name)
        finally:
            is_over.set()
            loading.join(60)
    assert answer.status_code == 200, answer.content
    assert "attachment" in answer.headers["Content-Disposition"]
    frames = {frame["name"] for frame in json.loads(answer.content)["shared"]["frames"]}
    assert any("spin_for_the_profile" in one for one in frames), frames
    entry = AuditRecord.objects.filter(action="worker.profile").get()
    assert entry.detail == {"worker": name, "seconds": 5, "by": "py-spy"}
    for other in (operator, as_person("vic", scene, Role.VIEWER)):  # its process is gone; no right to it
        assert "Content-Disposition" not in take(other, name).headers
    assert AuditRecord.objects.filter(action="worker.profile").count() == 1
    assert "Take a profile" not in as_person("vic", scene).get(f"/fleet/workers/{name}/").content.decode()
