"""What a worker tells whoever follows a request through all processes: a span, and lines of JSON."""

import logging
import socket
import sys
from collections import Counter
from pathlib import Path

import orjson
import pytest

from serving.logs import JsonLines, traceparent
from serving.tracing import is_sampled
from tests.collector import collecting
from tests.serving.graphs.apps import DIFFICULT
from tests.serving.runtime.rig import service
from tests.serving.workers import running

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED, NOT_SAMPLED = f"00-{TRACE}-{PARENT}-01", f"00-{TRACE}-{PARENT}-00"


def test_a_sampled_request_is_a_span_below_that_of_the_gateway_and_others_are_none(tmp_path: Path) -> None:
    with collecting() as collector:
        environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "SLIPWAY_LOG_FORMAT": "json"}
        with running(tmp_path / "log", environment, settings={"tokens": 3}) as worker:
            worker.until_ready()
            address = f"{worker.url}/v1/completions"
            body = {"model": "talk", "prompt": "Hello", "max_tokens": 3}
            for given in ({}, {"traceparent": NOT_SAMPLED}, {"traceparent": "nonsense"}):
                assert worker.client.post(address, json=body, headers=given).status_code == 200
            assert worker.client.post(address, json=body, headers={"traceparent": SAMPLED}).status_code == 200
            refused = worker.client.post(address, content=b"{", headers={"traceparent": SAMPLED})
            assert refused.status_code == 400
            worker.process.terminate()
            assert worker.wait() == 0
            lines = [orjson.loads(line) for line in worker.log.splitlines()]
    answered, faulty = collector.spans
    assert (answered.service, answered.name) == ("slipway-model-worker", "POST /v1/completions")
    assert (answered.trace, answered.parent, answered.failed) == (TRACE, PARENT, False)
    assert answered.attributes["http.response.status_code"] == "200"
    assert answered.attributes["gen_ai.usage.output_tokens"] == "3"
    assert answered.attributes["slipway.worker"] == "chat-1-0"
    assert "slipway.queue_seconds" in answered.attributes
    assert faulty.attributes["http.response.status_code"] == "400"
    assert "slipway.queue_seconds" not in faulty.attributes

    ready = next(line for line in lines if line["message"].startswith("ready after"))
    assert (ready["role"], ready["level"], ready["logger"]) == ("model-worker", "INFO", "__main__")
    assert (ready["worker"], ready["service"], ready["version"]) == ("chat-1-0", "talk", "chat:v1")


def test_a_request_to_a_service_shows_its_handler_and_the_batch_of_its_model(tmp_path: Path) -> None:
    source = """
    import time
    from slipway import serve

    class Slow(serve.GpuModel):
        def load(self, files): ...

        @serve.batched(max_size=4)
        def work(self, items):
            time.sleep(0.2)
            return items

    app = serve.App(processes=1)

    @app.post("/work")
    def work(request):
        return serve.get(Slow).run("work", 1)
    """
    with (
        collecting() as collector,
        service(tmp_path / "app", source, {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}) as worker,
    ):
        url, given = f"{worker.url}/work", {"traceparent": SAMPLED}
        assert worker.client.post(url, json={}, headers=given).status_code == 200
        worker.process.terminate()
        assert worker.wait() == 0
    spans = {span.name: span for span in collector.spans}
    assert set(spans) == {"POST /work", "queue", "handler", "Slow.work queue", "Slow.work batch"}
    assert {span.trace for span in spans.values()} == {TRACE}
    assert spans["POST /work"].parent == PARENT
    assert spans["queue"].parent == spans["handler"].parent == spans["POST /work"].span
    assert spans["Slow.work queue"].parent == spans["Slow.work batch"].parent == spans["handler"].span
    assert spans["handler"].attributes["slipway.process"] == "cpu#0"
    assert spans["Slow.work batch"].attributes["slipway.batch_size"] == "1"
    assert 0.2 <= spans["Slow.work batch"].seconds <= spans["handler"].seconds <= spans["POST /work"].seconds


def test_a_collector_that_never_answers_keeps_no_worker_from_ending(tmp_path: Path) -> None:
    """The exporter would wait ten minutes for the collector, longer than this test waits for the worker."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": address, "OTEL_EXPORTER_OTLP_TIMEOUT": "600"}
        with running(tmp_path / "log", environment, settings={"tokens": 1}) as worker:
            worker.until_ready()
            body = {"model": "talk", "prompt": "Hello", "max_tokens": 1}
            url, given = f"{worker.url}/v1/completions", {"traceparent": SAMPLED}
            assert worker.client.post(url, json=body, headers=given).status_code == 200
            worker.process.terminate()
            assert worker.wait() == 0
        silent.settimeout(0)
        silent.accept()[0].close()


def test_without_an_endpoint_it_answers_all_the_same_and_lines_are_text(tmp_path: Path) -> None:
    with running(tmp_path / "log", settings={"tokens": 3}) as worker:
        worker.until_ready()
        body = {"model": "talk", "prompt": "Hello", "max_tokens": 3}
        address = f"{worker.url}/v1/completions"
        assert worker.client.post(address, json=body, headers={"traceparent": SAMPLED}).status_code == 200
        assert "INFO __main__ ready after" in worker.log


@pytest.mark.parametrize(
    ("said", "is_wanted"),
    [
        (SAMPLED, True),
        (f"00-{TRACE}-{PARENT}-03", True),
        (NOT_SAMPLED, False),
        ("", False),
        ("00-x-y-01", False),
    ],
)
def test_who_does_not_say_that_they_trace_is_not_traced(said: str, is_wanted: bool) -> None:
    assert is_sampled(said) is is_wanted


def test_a_line_of_a_request_names_its_trace_and_a_failure_is_one_line() -> None:
    try:
        raise RuntimeError("CUDA error")
    except RuntimeError:
        record = logging.LogRecord("serving", logging.ERROR, "", 1, "it %s", ("failed",), sys.exc_info())
    told = JsonLines("model-worker", {"worker": "chat-1-0"})
    token = traceparent.set(SAMPLED)
    text = told.format(record)
    traceparent.reset(token)
    line = orjson.loads(text)
    assert "\n" not in text
    assert (line["message"], line["trace_id"], line["worker"]) == ("it failed", TRACE, "chat-1-0")
    assert line["exception"].endswith("RuntimeError: CUDA error")


def test_an_item_of_a_graph_has_a_span_for_each_of_its_tasks(tmp_path: Path) -> None:
    with (
        collecting() as collector,
        service(tmp_path / "app", DIFFICULT, {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}) as worker,
    ):
        url, given = f"{worker.url}/run", {"traceparent": SAMPLED}
        assert worker.client.post(url, content=b"20", headers=given).text == "201"
        assert worker.client.post(url, content=b"7", headers=given).status_code == 422
        worker.process.terminate()
        assert worker.wait() == 0
    names = Counter(span.name for span in collector.spans)
    assert [names[f"{task} batch"] for task in ("Risky", "picture", "checked", "slow")] == [2, 1, 1, 1]
    (whole,) = (span for span in collector.spans if span.name == "slow batch")
    assert whole.trace == TRACE
    assert 0.01 <= whole.seconds < 10
