"""The load is steady, patient with a gateway that is not up, and honest about what came back."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from controlplane.sample.traffic import SampleAnswer, TrafficTally, main
from tests.serving.workers import PROJECT, running, wait_until

pytestmark = pytest.mark.process


class Gateway(ThreadingHTTPServer):
    """Answers as two versions in turn; each fifth request fails as it is told."""

    daemon_threads = True

    def __init__(self, port: int = 0, *, fault: str = "") -> None:
        bodies: list[dict[str, Any]] = []
        paths: list[str] = []
        numbers = count(1)

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                number = next(numbers)
                bodies.append(body)
                paths.append(self.path)
                bad = fault if number % 5 == 0 else ""
                if bad == "drop":
                    self.close_connection = True
                    return
                stream = body["stream"]
                content = b'data: {"choices": []}\n\n' + (b"" if bad == "break" else b"data: [DONE]\n\n")
                if not stream:
                    content = b"<html>" if bad == "break" else b'{"choices": []}'
                self.send_response(503 if bad == "status" else 200)
                self.send_header("x-slipway-version", f"chat:v{1 + number % 2}")
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *arguments: Any) -> None:
                return

        super().__init__(("127.0.0.1", port), Handler)
        self.bodies, self.paths = bodies, paths
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/talk"


def play(url: str, capsys: pytest.CaptureFixture[str], *options: str) -> list[dict[str, Any]]:
    assert main(["--url", url, "--json", *options]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_every_kind_of_request_is_sent_and_counted_by_version(capsys: pytest.CaptureFixture[str]) -> None:
    gateway = Gateway()
    *lately, total = play(gateway.url, capsys, "--rps=100", "--seconds=2", "--report-every=0.5")
    gateway.shutdown()
    assert (total["what"], total["failed"]) == ("total", 0)
    assert total["ok"] == len(gateway.bodies)
    assert 100 < total["ok"] < 300
    assert sum(total["versions"].values()) == total["ok"]
    assert total["versions"].keys() == {"chat:v1", "chat:v2"}
    assert abs(total["versions"]["chat:v1"] - total["versions"]["chat:v2"]) <= 1
    assert {(path, body["stream"]) for path, body in zip(gateway.paths, gateway.bodies, strict=True)} == {
        (f"/talk/v1/{kind}", stream)
        for kind in ("completions", "chat/completions")
        for stream in (True, False)
    }
    assert len(lately) >= 2
    assert sum(line["ok"] for line in lately) <= total["ok"]


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("status", {"status 503"}),
        ("break", {"broken stream", "not JSON"}),
        ("drop", {"RemoteProtocolError"}),
    ],
)
def test_what_goes_wrong_is_counted_as_what_it_was(
    capsys: pytest.CaptureFixture[str], fault: str, words: set[str]
) -> None:
    gateway = Gateway(fault=fault)
    total = play(gateway.url, capsys, "--rps=60", "--seconds=1")[-1]
    gateway.shutdown()
    assert total["faults"].keys() == words
    assert total["failed"] == len(gateway.bodies) // 5
    assert total["ok"] == len(gateway.bodies) - total["failed"]


def test_it_waits_for_a_gateway_that_is_not_up(capfd: pytest.CaptureFixture[str]) -> None:
    reserved = Gateway()
    port = reserved.server_address[1]
    reserved.shutdown()
    reserved.server_close()
    later = threading.Timer(1.5, lambda: Gateway(port))
    later.start()
    assert main(["--url", f"http://127.0.0.1:{port}/talk", "--rps=50", "--seconds=0.5", "--json"]) == 0
    told = capfd.readouterr()
    assert "waiting for" in told.err
    assert "no connection" in told.err
    total = json.loads(told.out.splitlines()[-1])
    assert total["failed"] == 0
    assert total["ok"] > 5


def started(url: str, log: Path, *options: str) -> "subprocess.Popen[bytes]":
    command = [
        sys.executable,
        "-m",
        "controlplane.sample.traffic",
        "--url",
        url,
        "--report-every=0.2",
        *options,
    ]
    with log.open("wb") as output:
        return subprocess.Popen(command, cwd=PROJECT, stdout=output, stderr=output)


def test_a_signal_ends_it_with_its_total(tmp_path: Path) -> None:
    gateway, log = Gateway(), tmp_path / "log"
    process = started(gateway.url, log)
    try:
        wait_until(lambda: " ok" in log.read_text())
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert "  total: " in log.read_text().splitlines()[-1]
    finally:
        process.kill()
        process.wait()
        gateway.shutdown()


def test_it_ends_with_its_parent_when_told_to(tmp_path: Path) -> None:
    gateway, log = Gateway(), tmp_path / "log"
    code = (
        "import subprocess, sys; p = subprocess.Popen([sys.executable, '-m', 'controlplane.sample.traffic',"
        f"'--url', {gateway.url!r}, '--exit-with-parent'], stdout=open({str(log)!r}, 'w'));"
        "print(p.pid, flush=True); import time; time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], cwd=PROJECT, stdout=subprocess.PIPE)
    try:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        wait_until(lambda: gateway.bodies)
        parent.kill()
        parent.wait()
        wait_until(lambda: "total: " in log.read_text())
    finally:
        parent.kill()
        parent.wait()
        gateway.shutdown()
    time.sleep(0.1)
    with pytest.raises(ProcessLookupError):
        for _ in range(600):
            os.kill(child, 0)
            time.sleep(0.1)


@pytest.mark.stack
def test_a_real_worker_answers_all_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with running(tmp_path / "log", settings={"token_seconds": 0.001}, slots=16) as worker:
        worker.until_ready()
        total = play(worker.url, capsys, "--rps=40", "--seconds=1.5")[-1]
    assert total["failed"] == 0
    assert total["ok"] > 20
    assert total["ttft_p50_ms"] < total["p95_ms"]


def test_a_line_says_it_in_words() -> None:
    tally = TrafficTally(skipped=2)
    for milliseconds in range(1, 11):
        tally.add(SampleAnswer("chat:v1", "", milliseconds / 1_000, first_seconds=0.001))
    tally.add(SampleAnswer("chat:v2", "status 500", 0.1))
    assert tally.line(2.0) == (
        "5.5/s  10 ok  1 failed  p50 5 ms, p95 10 ms  first token 1 ms  chat:v1 10  chat:v2 1"
        "  (status 500: 1)  2 not sent: 64 still under way"
    )


@pytest.mark.parametrize(
    "options", [["--url=x"], ["--url=http://x", "--rps=0"], ["--url=http://x", "--seconds=-1"]]
)
def test_a_faulty_option_is_refused(options: list[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(options)
    assert end.value.code == 2
