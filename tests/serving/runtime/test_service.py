"""A service from its ten lines: routes, types, errors, streams, jobs, batches, figures."""

import http.client
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from openapi_spec_validator import validate

from tests.serving.runtime.rig import BackgroundCall, pids, service, until_ended
from tests.serving.workers import RunningWorker, wait_until

pytestmark = pytest.mark.process

APP = """
import asyncio, time
import numpy as np
from pydantic import BaseModel
from slipway import serve

class Detector(serve.GpuModel):
    timeout_seconds = 6.0

    def load(self, files):
        self.weight = float(files["detector"].read_text())
        self.sizes = []

    @serve.batched(max_size=4, max_wait_ms=200)
    def detect(self, images):
        self.sizes.append(len(images))
        if any(image.size and image.flat[0] == -1 for image in images):
            raise ValueError("poisoned")
        return [float(image.sum()) * self.weight for image in images]

    @serve.batched(max_size=4)
    def miscounted(self, items):
        return items[1:]

    def grown(self, image):
        return image + 1

    def batches(self):
        return self.sizes

    def words(self, text):
        for word in text.split():
            if word == "bad":
                raise serve.Problem(422, "Bad word", "It says bad.")
            yield word

    def hang(self):
        time.sleep(600)

    def sleep(self, seconds):
        time.sleep(seconds)
        return seconds

app = serve.App(processes=4, abilities=["cloth"], timeout_seconds=60)
refused = app.indicator("refused", "Pictures that were refused.")

class Picture(BaseModel):
    values: list[float]

class Boxes(BaseModel):
    total: float

class Jpeg(serve.Request):
    content_types = ("image/jpeg",)
    max_bytes = 1_000

@app.post("/detect", warm_up={"values": [1.0]})
def detect(request: Picture) -> Boxes:
    "Finds boxes."
    if not request.values:
        refused.observe()
    return Boxes(total=serve.get(Detector).run("detect", np.array(request.values)))

@app.post("/grow/{count}")
def grow(count: int, factor: float = 1.0):
    array = serve.get(Detector).empty((count,))
    array[:] = factor
    return float(serve.get(Detector).run("grown", array).sum())

@app.post("/call/{method}")
def call(method: str):
    return {"result": serve.get(Detector).run(method)}

@app.post("/miscounted")
def miscounted():
    return serve.get(Detector).run("miscounted", 1)

@app.post("/both")
async def both():
    model = serve.get(Detector)
    return await asyncio.gather(model.run_async("sleep", 0.2), model.run_async("sleep", 0.3))

@app.post("/wait")
def wait(request):
    return serve.get(Detector).run("sleep", request.seconds)

@app.post("/spin")
def spin(request):
    end = time.monotonic() + request.seconds
    while time.monotonic() < end:
        pass

@app.post("/raises")
def raises():
    raise ZeroDivisionError("secret")

@app.post("/lies")
def lies() -> Boxes:
    return {"total": "many"}

@app.post("/upload", max_bytes=100_000)
def upload(request):
    return {"name": request.name, "bytes": len(request.picture)}

@app.post("/jpeg")
def jpeg(request: Jpeg):
    return {"bytes": len(request.body)}

@app.stream("/caption")
def caption(request):
    yield from serve.get(Detector).stream("words", request.picture)

@app.stream("/count")
async def count(request):
    for number in range(request.numbers):
        await asyncio.sleep(0.01)
        yield {"number": number}

@app.job("/render")
def render(request, progress):
    for step in range(request.steps):
        progress(step / request.steps, f"step {step}")
        time.sleep(0.05)
    if request.fail:
        raise serve.Problem(409, "No paint")
    return {"steps": request.steps}
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningWorker]:
    directory = tmp_path_factory.mktemp("service")
    (directory / "detector.txt").write_text("2")
    with service(directory, APP) as worker:
        yield worker


def test_every_route_answers_below_v1_for_gateways(served: RunningWorker) -> None:
    assert served.post("/v1/detect", values=[1]).json() == {"total": 2.0}
    assert problem(served.post("/v1/metrics")) == (404, "Not found")


def problem(answer: httpx2.Response) -> tuple[int, str]:
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    document = answer.json()
    assert document["status"] == answer.status_code
    return answer.status_code, document["title"]


def test_public_names_need_no_django() -> None:
    heavy = "{'django', 'torch', 'numpy', 'pydantic', 'starlette'}"
    code = f"import sys; from slipway import serve; print(sorted({heavy} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done


def test_a_typed_handler_answers_by_its_model(served: RunningWorker) -> None:
    answer = served.post("/detect", values=[1, 2, 3])
    assert (answer.status_code, answer.json()) == (200, {"total": 12.0})
    assert answer.headers["x-slipway-version"] == "chat:v1"


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "title"),
    [
        ("POST", "/detect", b'{"values": ["a"]}', 422, "Invalid request"),
        ("POST", "/detect", b"{", 422, "Invalid request"),
        ("POST", "/wait", b"{", 400, "Malformed body"),
        ("POST", "/wait", b"{}", 422, "Invalid request"),
        ("POST", "/grow/many", b"", 422, "Invalid request"),
        ("POST", "/nowhere", b"", 404, "Not found"),
        ("GET", "/detect", b"", 405, "Method not allowed"),
        ("POST", "/raises", b"", 500, "The handler failed"),
        ("POST", "/lies", b"", 500, "Wrong answer"),
        ("POST", "/miscounted", b"", 500, "Wrong count"),
        ("POST", "/call/nothing", b"", 500, "No such method"),
        ("POST", "/upload", b"x" * 100_001, 413, "Body too large"),
        ("POST", "/jpeg", b"x", 415, "Unsupported media type"),
    ],
)
def test_what_is_wrong_is_said_and_the_service_goes_on(
    served: RunningWorker, method: str, path: str, body: bytes, status: int, title: str
) -> None:
    assert problem(served.client.request(method, f"{served.url}{path}", content=body)) == (status, title)
    assert served.post("/detect", values=[1]).status_code == 200


def test_wrong_fields_are_named(served: RunningWorker) -> None:
    errors = served.post("/detect", values=[1, "a"]).json()["errors"]
    assert [one["field"] for one in errors] == ["values.1"]


def test_what_a_handler_raised_stays_in_the_log(served: RunningWorker) -> None:
    assert "secret" not in served.post("/raises").text
    assert "secret" in served.log


def test_an_uploaded_form_has_fields_and_files(served: RunningWorker) -> None:
    answer = served.client.post(
        f"{served.url}/upload", data={"name": "cat"}, files={"picture": b"\xff\xd8\r\n\x00"}
    )
    assert answer.json() == {"name": "cat", "bytes": 5}


def test_openapi_describes_the_routes(served: RunningWorker) -> None:
    document = served.client.get(f"{served.url}/openapi.json").json()
    validate(document)
    operation = document["paths"]["/detect"]["post"]
    assert operation["summary"] == "Finds boxes."
    assert operation["requestBody"]["content"]["application/json"]["schema"] == {
        "$ref": "#/components/schemas/Picture"
    }
    assert document["paths"]["/grow/{count}"]["post"]["parameters"][0]["schema"]["type"] == "integer"


def blocking(served: RunningWorker) -> BackgroundCall:
    """A call that keeps the model at work for 1.5 s, so that others wait for it."""
    asked = BackgroundCall(served, "/wait", {"seconds": 1.5})
    wait_until(lambda: served.health()[1]["in_flight"] == 1, seconds=30)
    time.sleep(0.1)
    return asked


def test_calls_at_the_same_time_share_a_batch(served: RunningWorker) -> None:
    blocked = blocking(served)
    asked = [BackgroundCall(served, "/detect", {"values": [number]}) for number in range(3)]
    assert [one.result() for one in asked] == [(200, {"total": 2.0 * number}) for number in range(3)]
    assert blocked.result() == (200, 1.5)
    assert served.post("/call/batches").json()["result"][-1] == 3


def test_a_poisoned_item_fails_alone(served: RunningWorker) -> None:
    blocked = blocking(served)
    asked = [BackgroundCall(served, "/detect", {"values": [number]}) for number in (5, -1, 6)]
    (good, bad, other) = [one.result() for one in asked]
    assert (good, other) == ((200, {"total": 10.0}), (200, {"total": 12.0}))
    assert bad[0] == 500
    assert "ValueError: poisoned" in bad[1]["detail"]
    blocked.result()


def test_a_lone_call_does_not_wait_for_a_batch(served: RunningWorker) -> None:
    served.post("/detect", values=[1])
    began = time.monotonic()
    for _ in range(5):
        served.post("/detect", values=[1])
    assert time.monotonic() - began < 0.8, "five waits of 200 ms"


@pytest.mark.parametrize("count", [10, 150_000, 20_000_000])
def test_arrays_of_any_size_come_and_go(served: RunningWorker, count: int) -> None:
    """The last one finds no room in an arena and travels inside the message."""
    assert served.post(f"/grow/{count}?factor=2").json() == 3.0 * count


def test_async_handlers_wait_for_several_models_at_once(served: RunningWorker) -> None:
    assert served.post("/both").json() == [0.2, 0.3]


def test_a_stream_comes_as_events(served: RunningWorker) -> None:
    with served.client.stream("POST", f"{served.url}/caption", json={"picture": "a b c"}) as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        assert list(answer.iter_lines()) == ["data: a", "", "data: b", "", "data: c", ""]
    counted = served.post("/count", numbers=3).text
    assert counted == "".join(f'data: {{"number":{number}}}\n\n' for number in range(3))


def test_a_stream_that_cannot_begin_is_an_error_and_one_that_breaks_says_so(served: RunningWorker) -> None:
    assert problem(served.post("/caption", picture="bad")) == (422, "Bad word")
    broken = served.post("/caption", picture="a bad")
    assert broken.status_code == 200
    assert broken.text.startswith("data: a\n\nevent: error\ndata: {")
    assert json.loads(broken.text.rpartition("data: ")[2])["title"] == "Bad word"


def test_a_client_that_leaves_ends_its_work(served: RunningWorker) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=10)
    connection.request("POST", "/count", json.dumps({"numbers": 100_000}))
    assert connection.getresponse().status == 200
    wait_until(lambda: served.health()[1]["in_flight"] == 1, seconds=30)
    connection.sock.close()
    connection.close()
    wait_until(lambda: served.health()[1]["in_flight"] == 0, seconds=5, what="the end of the stream")


def test_a_deadline_travels_to_the_model(served: RunningWorker) -> None:
    blocked = blocking(served)
    began = time.monotonic()
    late = served.client.post(
        f"{served.url}/detect", json={"values": [1]}, headers={"x-slipway-timeout-ms": "300"}
    )
    assert problem(late) == (504, "Deadline exceeded")
    assert time.monotonic() - began < 1.2
    assert blocked.result() == (200, 1.5)


def test_a_handler_that_goes_on_after_its_deadline_is_replaced(served: RunningWorker) -> None:
    before = pids(served)
    answer = served.client.post(
        f"{served.url}/spin", json={"seconds": 60}, headers={"x-slipway-timeout-ms": "200"}
    )
    assert problem(answer) == (504, "Deadline exceeded")
    assert served.post("/detect", values=[1]).status_code == 200
    wait_until(lambda: len(now := pids(served)) == len(before) and now != before, seconds=60)


def test_a_method_that_never_returns_is_found_and_its_process_replaced(served: RunningWorker) -> None:
    before = pids(served)["Detector#0"]
    status, title = problem(served.post("/call/hang"))
    assert (status, title) == (503, "Model process ended")
    wait_until(lambda: pids(served).get("Detector#0", before) != before, seconds=60)
    assert served.post("/detect", values=[1]).json() == {"total": 2.0}
    assert "did not end its work within 6 s" in served.log


def test_a_job_is_accepted_followed_and_has_a_result(served: RunningWorker) -> None:
    accepted = served.post("/render", steps=3, fail=False)
    assert accepted.status_code == 202
    address = accepted.headers["location"]
    assert until_ended(served, address)["state"] == "succeeded"
    assert served.client.get(f"{served.url}{address}/result").json() == {"steps": 3}
    events = served.client.get(f"{served.url}{address}/events").text
    assert json.loads(events.removeprefix("data: "))["progress"] == 1.0


def test_a_job_can_be_cancelled_and_tried_again(served: RunningWorker) -> None:
    address = served.post("/render", steps=1_000, fail=False).headers["location"]
    wait_until(lambda: served.client.get(f"{served.url}{address}").json()["state"] == "running", seconds=30)
    assert problem(served.client.get(f"{served.url}{address}/result")) == (409, "Not finished")
    served.client.delete(f"{served.url}{address}")
    assert until_ended(served, address)["state"] == "cancelled"
    failed = served.post("/render", steps=1, fail=True).headers["location"]
    assert until_ended(served, failed)["status"] == 409
    assert served.client.post(f"{served.url}{failed}/retry").status_code == 202
    assert until_ended(served, failed)["attempts"] == 2


def test_the_same_key_is_the_same_job(served: RunningWorker) -> None:
    addresses = {
        served.client.post(
            f"{served.url}/render", json={"steps": 1, "fail": False}, headers={"idempotency-key": "k1"}
        ).headers["location"]
        for _ in range(2)
    }
    assert len(addresses) == 1


def test_figures_are_counted_by_route_and_method(served: RunningWorker) -> None:
    counted = 'slipway_worker_indicator_total{name="refused"}'
    judged = 'slipway_worker_indicator_requests_total{better="lower",name="refused"}'
    before = [served.metric(one) for one in (counted, judged)]
    for chosen_by in ("gateway", "client"):
        headers = {"x-slipway-chosen-by": chosen_by}
        served.client.post(f"{served.url}/detect", json={"values": []}, headers=headers)
    assert [served.metric(one) for one in (counted, judged)] == [before[0] + 2, before[1] + 1]
    assert served.metric("slipway_worker_timing_seconds_count", of="/detect") > 0
    assert served.metric("slipway_worker_requests_total", route="/detect", code="200") > 0
    assert served.metric("slipway_worker_batch_size_count", method="Detector.detect") > 0


def test_busy_is_the_working_share_of_the_cpu_processes(served: RunningWorker) -> None:
    wait_until(lambda: served.health()[1]["busy"] < 0.02, seconds=60, what="an idle service")
    asked = [BackgroundCall(served, "/wait", {"seconds": 1.0}) for _ in range(2)]
    assert [one.result()[0] for one in asked] == [200, 200]
    # Of 4 x 10 s: 1 s, and 2 s of the other one, which waits for its turn at the model.
    assert served.health()[1]["busy"] == pytest.approx(3.0 / 40, rel=0.4)


def test_without_shared_memory_arrays_travel_slower(tmp_path: Path) -> None:
    (tmp_path / "detector.txt").write_text("2")
    with service(tmp_path, APP, processes=1, arena_mb=0) as worker:
        assert worker.post("/grow/150000").json() == 300_000.0
