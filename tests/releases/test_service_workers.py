"""The service's page shows what real workers count of themselves, with the past."""

from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from gateway import selectors as gateway
from gateway.backends.worker_counters import WorkerCounters
from gateway.history import minute_of, packed
from gateway.metrics import workers as metrics_of_workers
from gateway.models import Route, TrafficReading
from gateway.routes import WorkerEndpoint
from gateway.worker_figures import packed_figures
from releases.pages.service import ServicePage
from tests.releases.browsing import as_person, text_of
from tests.releases.world import Scene
from tests.serving.runtime.rig import service

pytestmark = [pytest.mark.django_db, pytest.mark.process]

APP = """
from slipway import serve

class Scaler(serve.GpuModel):
    def load(self, files): ...

    @serve.batched(max_size=4)
    def scale(self, rows):
        return rows

app = serve.App(processes=2)

@app.post("/scale")
def scale(request):
    if request.json()["n"] == 0:
        raise ValueError("zero")
    return serve.get(Scaler).run("scale", request.json()["n"])
"""


def test_routes_methods_and_busy_of_real_workers_are_kept_and_shown(scene: Scene, tmp_path: Path) -> None:
    name = scene.service.stable_deployment
    with service(tmp_path / "app", APP) as worker:
        counters = WorkerCounters(lambda _: {name: [WorkerEndpoint("127.0.0.1", worker.port)]})
        readings = [counters.figures("x")]
        statuses = [worker.post("/scale", n=n).status_code for n in (1, 2, 3, 0)]
        readings.append(counters.figures("x"))
    assert statuses == [200, 200, 200, 500]
    route, now = Route.objects.get(service=scene.name), timezone.now()
    TrafficReading.objects.filter(route=route).delete()
    for at, figures in zip((now - timedelta(minutes=1), now), readings, strict=True):
        counts = packed(gateway.counts(route))
        TrafficReading.objects.create(
            route=route, minute=minute_of(at), at=at, counts=counts, figures=packed_figures(figures)
        )
    shown = ServicePage(scene.service, scene.requester).workers
    assert shown is not None
    (row,) = shown.routes
    assert (row.route, row.requests, row.error_share) == ("/scale", 4, 0.25)
    assert row.per_minute == pytest.approx(4.0, rel=0.01)
    assert 0.001 <= (row.p95 or 0) < 5
    (method,) = shown.methods
    assert (method.method, method.count.calls, method.count.batch_size) == ("Scaler.scale", 3, 1.0)
    assert shown.slots == 2
    told = {
        (sample.name, *sample.labels.values()): sample.value
        for family in metrics_of_workers()
        for sample in family.samples
    }
    errors = [value for key, value in told.items() if key[0] == "slipway_service_route_errors_total"]
    assert errors == [1.0]
    page = text_of(as_person("ada", scene), f"/services/{scene.name}/")
    assert "Inside the workers" in page
    assert "Scaler.scale" in page
