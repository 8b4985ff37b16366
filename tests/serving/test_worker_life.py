"""A worker from its first breath to its exit status."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest

from serving.protocol import Heartbeat, WorkerState, decode_heartbeat
from serving.worker_command import EXIT_PORT_TAKEN, WORKER_ENVIRONMENT
from tests.serving.workers import PROJECT, RunningWorker, command, running, wait_until

pytestmark = pytest.mark.stack

COMPLETIONS = "/v1/completions"
LONG = {"prompt": "a b c d e f g h", "max_tokens": 8}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


class BackgroundRequest(threading.Thread):
    """A request in the background."""

    def __init__(self, worker: RunningWorker, **body: Any) -> None:
        super().__init__(daemon=True)
        self._url, self._body = f"{worker.url}{COMPLETIONS}", body
        self.status: int | str = "none"
        self.start()

    def run(self) -> None:
        try:
            self.status = httpx2.post(self._url, json=self._body, timeout=60).status_code
        except httpx2.HTTPError as error:
            self.status = type(error).__name__


def test_health_says_loading_until_the_model_has_answered(log: Path) -> None:
    with running(log, settings={"load_seconds": 0.7}) as worker:
        status, body = worker.health()
        assert (status, body["state"], body["reason"]) == (503, "starting", "the model is loading")
        refused = worker.post(COMPLETIONS, **LONG)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        worker.until_ready()
        assert worker.post(COMPLETIONS, **LONG).status_code == 200


def test_a_drain_finishes_what_is_in_flight_and_exits_zero(log: Path) -> None:
    with running(log, settings={"token_seconds": 0.1}) as worker:
        worker.until_ready()
        answer = BackgroundRequest(worker, **LONG)
        wait_until(lambda: worker.health()[1]["in_flight"] == 1)
        worker.process.send_signal(signal.SIGTERM)
        assert worker.wait() == 0
        answer.join()
        assert answer.status == 200


def test_a_draining_worker_fails_health_at_once_and_still_serves_for_a_moment(log: Path) -> None:
    with running(log, settle_seconds=300.0) as worker:
        worker.until_ready()
        worker.process.send_signal(signal.SIGTERM)
        wait_until(lambda: worker.health()[0] == 503)
        answer = worker.post(COMPLETIONS, **LONG)
        assert answer.status_code == 200
        assert answer.headers["connection"] == "close"
        worker.process.send_signal(signal.SIGINT)
        assert worker.wait() == 1


def test_a_drain_ends_what_does_not_end_within_its_grace(log: Path) -> None:
    with running(log, settings={"token_seconds": 2.0}, grace_seconds=1) as worker:
        worker.until_ready()
        answer = BackgroundRequest(worker, **LONG)
        wait_until(lambda: worker.health()[1]["in_flight"] == 1)
        began = time.monotonic()
        worker.process.send_signal(signal.SIGTERM)
        assert worker.wait() == 0
        assert 1.0 <= time.monotonic() - began < 60.0
        answer.join()
        assert answer.status != 200


def test_a_drain_that_is_asked_for_twice_goes_on_and_an_interrupt_ends_it_at_once(log: Path) -> None:
    with running(log, settings={"token_seconds": 2.0}, settle_seconds=60.0, grace_seconds=60) as worker:
        worker.until_ready()
        BackgroundRequest(worker, **LONG)
        wait_until(lambda: worker.health()[1]["in_flight"] == 1)
        worker.process.send_signal(signal.SIGTERM)
        wait_until(lambda: worker.health()[0] == 503)
        worker.process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        assert worker.process.poll() is None
        worker.process.send_signal(signal.SIGINT)
        assert worker.wait() == 1


def test_health_answers_while_torch_loads_and_the_worker_can_be_stopped(log: Path, tiny_model: Path) -> None:
    with running(log, engine="transformers", model_dir=tiny_model) as worker:
        assert worker.health()[1]["state"] == "starting"
        worker.process.send_signal(signal.SIGTERM)
        assert worker.wait() == 0


def test_a_model_that_does_not_load_leaves_its_reason_and_exits_one(log: Path) -> None:
    with running(log, settings={"load_error": "the weights are damp"}, linger_seconds=0.5) as worker:
        assert worker.wait() == 1
        assert "failed: the weights are damp" in worker.log


def test_a_worker_that_found_no_files_ends_as_soon_as_they_are_there(log: Path, tmp_path: Path) -> None:
    files = tmp_path / "version"
    with running(
        log, model_dir=files, settings={"load_error": "there are none"}, linger_seconds=60
    ) as worker:
        wait_until(lambda: worker.health()[1]["state"] == "failed")
        status, body = worker.health()
        assert (status, body["reason"]) == (503, "there are none")
        assert worker.post(COMPLETIONS, **LONG).status_code == 503
        files.mkdir()
        assert worker.wait() == 1


@pytest.mark.parametrize(
    ("file", "settings", "reason"),
    [
        ({"serving": {"fail": 1}}, {}, "slipway.json: serving does not know fail"),
        ({}, {"tokns": 1}, "settings of the echo engine does not know tokns"),
    ],
)
def test_settings_that_cannot_be_meant_are_the_reason(
    log: Path, tmp_path: Path, file: dict[str, Any], settings: dict[str, Any], reason: str
) -> None:
    (tmp_path / "slipway.json").write_text(json.dumps(file))
    with running(log, model_dir=tmp_path, settings=settings) as worker:
        wait_until(lambda: worker.health()[1]["state"] == "failed")
        assert worker.health()[1]["reason"].startswith(reason)


def test_a_bad_version_starts_well_and_then_serves_badly(log: Path, tmp_path: Path) -> None:
    faults = {"serving": {"delay_ms": 50, "fail_share": 0.5, "after_requests": 3}}
    (tmp_path / "slipway.json").write_text(json.dumps(faults))
    with running(log, model_dir=tmp_path, slots=16) as worker:
        worker.until_ready()
        assert [worker.post(COMPLETIONS, **LONG).status_code for _ in range(3)] == [200, 200, 200]
        began = time.monotonic()
        statuses = [worker.post(COMPLETIONS, **LONG, stream=True).status_code for _ in range(20)]
        assert time.monotonic() - began > 20 * 0.05
        assert 4 <= statuses.count(500) <= 16
        assert statuses.count(200) + statuses.count(500) == 20
        failed = worker.metric("slipway_worker_requests_total", route=COMPLETIONS, code="500")
        assert failed == statuses.count(500)


def test_the_version_sets_its_engine_and_the_command_line_overrides_it(log: Path, tmp_path: Path) -> None:
    (tmp_path / "slipway.json").write_text(json.dumps({"engines": {"echo": {"tokens": 9, "seed": 1}}}))
    with running(log, model_dir=tmp_path, settings={"seed": 2}) as worker:
        worker.until_ready()
        body = worker.post("/v1/chat/completions", messages=[{"role": "user", "content": "one"}]).json()
        assert body["usage"]["completion_tokens"] == 9


def test_a_crash_is_a_crash(log: Path) -> None:
    with running(log, settings={"crash_after_requests": 2}) as worker:
        worker.until_ready()
        for _ in range(2):
            assert worker.post(COMPLETIONS, **LONG).status_code == 200
        with pytest.raises(httpx2.TransportError):
            worker.post(COMPLETIONS, **LONG)
        assert worker.wait() == 70


def test_a_taken_port_is_named_and_has_a_status_of_its_own(log: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with running(log, port=port) as worker:
            assert worker.wait() == EXIT_PORT_TAKEN
            assert f"--port {port} cannot be listened on: Address already in use" in worker.log


def test_a_faulty_command_is_named_and_exits_two() -> None:
    arguments = [sys.executable, "-m", "serving.worker", "--slots=0"]
    run = subprocess.run(arguments, capture_output=True, text=True, cwd=PROJECT, check=False)
    assert run.returncode == 2
    assert run.stderr.startswith("serving.worker: ")
    assert len(run.stderr.splitlines()) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's")
def test_a_worker_on_a_leash_goes_when_its_parent_is_killed(tmp_path: Path) -> None:
    argv = command(exit_with_parent=True).argv(sys.executable)
    pid_file = tmp_path / "pid"
    parent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import subprocess, sys, time, pathlib;"
            "child = subprocess.Popen(sys.argv[2:], stderr=open(sys.argv[1] + '.log', 'w'));"
            "pathlib.Path(sys.argv[1]).write_text(str(child.pid)); time.sleep(60)",
            str(pid_file),
            *argv,
        ],
        cwd=PROJECT,
        env={**os.environ, **WORKER_ENVIRONMENT},
    )
    log = Path(f"{pid_file}.log")
    try:
        wait_until(lambda: log.exists() and "ready after" in log.read_text())
        child = int(pid_file.read_text())
        parent.kill()
        parent.wait()
        wait_until(lambda: is_gone(child), seconds=60.0, what="the worker's end")
    finally:
        parent.kill()
        parent.wait()


def is_gone(pid: int) -> bool:
    """No such process, or a zombie that nobody reaps."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_client_that_reads_slowly_holds_no_slot(log: Path) -> None:
    with running(log, slots=1, settings={"tokens": 200_000}) as worker:
        worker.until_ready()
        connection = http.client.HTTPConnection("127.0.0.1", worker.port)
        connection.request(
            "POST", COMPLETIONS, json.dumps({"prompt": "x" * 90, "max_tokens": 20_000, "stream": True})
        )
        answer = connection.getresponse()
        assert answer.status == 200
        wait_until(lambda: worker.health()[1]["in_flight"] == 0)
        text = answer.read()
        assert text.endswith(b"data: [DONE]\n\n")
        connection.close()


def test_busy_rises_while_a_slot_works(log: Path) -> None:
    with running(log, slots=1, settings={"token_seconds": 0.25}) as worker:
        worker.until_ready()
        assert worker.health()[1]["busy"] < 0.2  # the readiness check takes no slot
        worker.post(COMPLETIONS, **LONG)
        assert worker.health()[1]["busy"] == pytest.approx(0.2, abs=0.08)
        assert worker.metric("slipway_worker_busy") == pytest.approx(0.2, abs=0.08)


class Console(ThreadingHTTPServer):
    """A control plane that only listens."""

    def __init__(self) -> None:
        heard: list[Heartbeat] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                heard.append(decode_heartbeat(self.rfile.read(int(self.headers["content-length"]))))
                self.send_response(202)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *arguments: Any) -> None:
                return

        super().__init__(("127.0.0.1", 0), Handler)
        self.heard = heard
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/heartbeats/"


def test_heartbeats_tell_the_whole_life(log: Path, tmp_path: Path) -> None:
    console = Console()
    settings = {"load_seconds": 0.5, "token_seconds": 0.05}
    with running(
        log,
        settings=settings,
        heartbeat_url=console.url,
        settle_seconds=0.5,
        machine="gpu-7",
        abilities=("chat", "json"),
    ) as worker:
        worker.until_ready()
        assert worker.post(COMPLETIONS, **LONG).status_code == 200
        wait_until(lambda: console.heard[-1].counters.requests == 1)
        worker.process.send_signal(signal.SIGTERM)
        assert worker.wait() == 0
    console.shutdown()
    states = list(dict.fromkeys(beat.state for beat in console.heard))
    assert states == [WorkerState.STARTING, WorkerState.READY, WorkerState.DRAINING]
    beat = next(beat for beat in reversed(console.heard) if beat.state is WorkerState.READY)
    assert (beat.worker, beat.version, beat.machine, beat.abilities) == (
        "chat-1-0",
        "chat:v1",
        "gpu-7",
        ("chat", "json"),
    )
    assert (beat.pid, beat.address, beat.port) == (worker.process.pid, "127.0.0.1", worker.port)
    assert beat.counters.completion_tokens == 8
    assert beat.busy > 0
    assert beat.ttft is not None
    assert beat.ttft.p50_ms > 45
    assert beat.tpot is not None
    assert beat.tpot.p50_ms > 45


def test_a_worker_serves_though_nobody_hears_it(log: Path) -> None:
    with running(log, heartbeat_url="http://127.0.0.1:9/heartbeats/") as worker:
        worker.until_ready()
        assert worker.post(COMPLETIONS, **LONG).status_code == 200
        wait_until(lambda: "heartbeats to 127.0.0.1:9 are not taken" in worker.log)
