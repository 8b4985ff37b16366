"""One process reports a machine with all its workers: real workers, the real agent, and whoever listens."""

import json
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from serving.devices import parse_devices, read_devices, read_host
from serving.protocol import Heartbeat, NodeReport
from tests.serving.workers import PROJECT, running, wait_until


class Console(ThreadingHTTPServer):
    """Keeps the reports and the tokens that they came with."""

    def __init__(self) -> None:
        reports: list[NodeReport] = []
        tokens: set[str] = set()

        class ReportHandler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                tokens.add(self.headers["authorization"])
                body = self.rfile.read(int(self.headers["content-length"]))
                reports.append(NodeReport.from_dict(json.loads(body)))
                self.send_response(200)
                self.send_header("content-length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_: object) -> None:
                pass

        super().__init__(("127.0.0.1", 0), ReportHandler)
        self.reports, self.tokens = reports, tokens
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def told(self) -> dict[str, str]:
        """State by worker, of the last report."""
        beats = [Heartbeat.from_dict(entry) for entry in self.reports[-1].workers] if self.reports else []
        return {beat.worker: str(beat.state) for beat in beats}


@pytest.fixture
def console() -> Iterator[Console]:
    console = Console()
    yield console
    console.shutdown()
    console.server_close()


class Agent:
    def __init__(self, directory: Path, console: Console) -> None:
        self.socket = directory / "node.sock"
        token = directory / "node-token"
        token.write_text("s3cret\n")
        self.command = [sys.executable, "-m", "serving.node_agent", "--node", "box-1"]
        self.command += ["--socket", str(self.socket), "--token-file", str(token)]
        self.command += ["--url", f"http://127.0.0.1:{console.server_address[1]}/api/v1/node-reports/"]
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self.command, cwd=PROJECT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def agent(tmp_path: Path, console: Console) -> Iterator[Agent]:
    agent = Agent(tmp_path, console)
    yield agent
    agent.kill()


def test_one_report_has_all_workers_and_a_stopped_one_falls_silent(
    tmp_path: Path, agent: Agent, console: Console
) -> None:
    def worker(number: int) -> Any:
        return running(
            tmp_path / f"{number}.log", name=f"chat-1-{number}", heartbeat_url=f"unix:{agent.socket}"
        )

    with worker(0) as first, worker(1) as second:
        both = {"chat-1-0": "ready", "chat-1-1": "ready"}
        wait_until(lambda: console.told == both)
        assert stat.S_IMODE(agent.socket.stat().st_mode) == 0o600
        os.kill(first.process.pid, signal.SIGSTOP)
        wait_until(lambda: console.told == {"chat-1-1": "ready"})
        os.kill(first.process.pid, signal.SIGCONT)
        wait_until(lambda: console.told == both)

        # The agent dies; the next one knows everything again, under another session.
        former = console.reports[-1].session
        agent.kill()
        agent.start()
        wait_until(lambda: console.reports[-1].session != former and console.told == both)
        second.process.send_signal(signal.SIGTERM)
        wait_until(lambda: console.told.get("chat-1-1") == "draining")
    assert {report.node for report in console.reports} == {"box-1"}
    assert console.tokens == {"Bearer s3cret"}
    sessions = list(dict.fromkeys(report.session for report in console.reports))
    assert (len(sessions), sessions[0]) == (2, former)
    for session in sessions:
        # What the killed one sent last may come after the first report of the next.
        told = [report.sequence for report in console.reports if report.session == session]
        assert told == list(range(1, len(told) + 1))


LISTED = """\
GPU-11111111-aaaa, 42, 1024, 81559, 61, 310.25, 0
GPU-22222222-bbbb, 0, 5, 81559, [N/A], [N/A], 3
not, a, gpu
"""


def test_the_drivers_readings_have_units_and_what_it_cannot_tell_is_left_out() -> None:
    first, second = parse_devices(LISTED)
    assert first.uuid == "GPU-11111111-aaaa"
    assert first.readings == {
        "utilization_ratio": 0.42,
        "memory_used_bytes": 1024 * 2**20,
        "memory_total_bytes": 81559 * 2**20,
        "temperature_celsius": 61,
        "power_watts": 310.25,
        "ecc_uncorrected_errors": 0,
    }
    assert "temperature_celsius" not in second.readings
    assert second.readings["ecc_uncorrected_errors"] == 3


@pytest.mark.parametrize(
    ("script", "count"), [(f"cat <<'END'\n{LISTED}END", 2), ("exit 9", 0), ("exec sleep 60", 0)]
)
async def test_a_driver_that_fails_or_hangs_has_no_readings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, count: int
) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    if "sleep" in script:
        monkeypatch.setattr("serving.devices.READ_WITHIN_SECONDS", 0.2)
    assert len(await read_devices()) == count


def test_the_share_of_a_machines_memory_in_use_is_read_of_linux(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:       1000 kB\nMemFree:  10 kB\nMemAvailable:    250 kB\n")
    (host,) = read_host(meminfo)
    assert (host.uuid, host.readings) == ("host", {"memory_used_ratio": 0.75})
    assert read_host(tmp_path / "none") == ()
    meminfo.write_text("MemTotal: many\n")
    assert read_host(meminfo) == ()
