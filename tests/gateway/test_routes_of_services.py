"""A service with its own routes behind a real Envoy: every path of it passes, but the worker's own pages."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime

import httpx2
import pytest

from common.fence import Fence
from gateway.routes import RouteSpec, WorkerEndpoint
from perf.envoy_stack import CANARY, STABLE, EnvoyStack
from tests.patience import eventually
from tests.serving.runtime.rig import service
from tests.serving.workers import RunningWorker

pytestmark = pytest.mark.stack

APP = """
from slipway import serve

app = serve.App(processes=1)

@app.post("/detect", max_bytes=3_000_000)
def detect(picture: bytes):
    return {"bytes": len(picture)}

@app.stream("/caption")
def caption(request):
    yield from request.text.split()
"""


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningWorker]:
    with service(tmp_path_factory.mktemp("service"), APP) as running:
        yield running


@pytest.fixture
def client(stack: EnvoyStack, worker: RunningWorker) -> Iterator[httpx2.Client]:
    """Return a client of the service `shapes`, both of whose versions are the same worker."""
    for target in (STABLE, CANARY):
        stack.gateway.set_target(
            target.name, [WorkerEndpoint("127.0.0.1", worker.port)], observed_at=datetime.now(UTC)
        )
    spec = RouteSpec("shapes", STABLE, CANARY, 0, release_header="open", all_paths=True)
    stack.gateway.set_route(spec, fence=Fence(1, 1))
    eventually(lambda: all(stack.gateway.ready(target.name) for target in (STABLE, CANARY)))
    with httpx2.Client(base_url=f"http://127.0.0.1:{stack.layout.port}/shapes", timeout=30) as made:
        yield made


def test_the_plain_route_answers_by_weight_and_by_choice(client: httpx2.Client) -> None:
    for path in ("/detect", "/v1/detect"):
        answer = client.post(path, content=b"abc")
        assert (answer.status_code, answer.json()) == (200, {"bytes": 3})
        assert answer.headers["x-slipway-version"] == STABLE.version
    chosen = client.post("/detect", content=b"abc", headers={"x-release": "canary"})
    assert chosen.headers["x-slipway-version"] == CANARY.version


def test_uploads_and_their_limit_and_streams_pass(client: httpx2.Client) -> None:
    assert client.post("/detect", content=b"x" * 2_500_000).json() == {"bytes": 2_500_000}
    refused = client.post("/detect", content=b"x" * 3_000_001)
    assert (refused.status_code, refused.json()["title"]) == (413, "Body too large")
    with client.stream("POST", "/caption", json={"text": "a b"}) as answer:
        assert list(answer.iter_lines()) == ["data: a", "", "data: b", ""]


def test_pages_of_the_worker_itself_do_not_pass(client: httpx2.Client, worker: RunningWorker) -> None:
    assert worker.client.get(f"{worker.url}/metrics").status_code == 200
    escaped = [f"/{path.replace('m', '%6d').replace('h', '%68')}" for path in ("metrics", "healthz")]
    hidden = ["/metrics", "/healthz", "/metrics/", "//metrics", "/x/../metrics", "/", *escaped]
    assert {path: client.get(path).status_code for path in hidden} == dict.fromkeys(hidden, 404)
    assert "/detect" in json.loads(client.get("/openapi.json").content)["paths"]
