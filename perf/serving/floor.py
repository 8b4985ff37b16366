"""What one request costs that asks for nothing: requests per CPU second of the server's own processes.

Ours and a peer answer in turn, some slices each, so that both see the same machine.
"""

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from perf.required import RequiredFigure
from perf.serving.load import MeasuredLoad, measure, request
from perf.serving.running import RunningService, free_port, service

APP = """
from slipway import serve

app = serve.App(processes=1)

@app.post("/inference")
def hello(request):
    return {"hello": "world"}
"""
PEERS = {
    "mosec": """
from mosec import Server, Worker
class Hello(Worker):
    def forward(self, data):
        return {"hello": "world"}
if __name__ == "__main__":
    server = Server()
    server.append_worker(Hello, num=1)
    server.run()
""",
    "LitServe": """
import sys
import litserve
class Hello(litserve.LitAPI):
    def setup(self, device): pass
    def predict(self, request): return {"hello": "world"}
if __name__ == "__main__":
    server = litserve.LitServer(Hello(api_path="/inference"), accelerator="cpu", workers_per_device=1)
    server.run(port=int(sys.argv[2]), generate_client_file=False, log_level="error")
""",
    "Ray Serve": """
import sys, time
import ray
from ray import serve
@serve.deployment(num_replicas=1)
class Hello:
    async def __call__(self, request):
        await request.json()
        return {"hello": "world"}
ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR", object_store_memory=200_000_000)
serve.start(http_options={"host": "127.0.0.1", "port": int(sys.argv[2])})
serve.run(Hello.bind(), route_prefix="/inference")
time.sleep(3_600)
""",
}
SLICES, SLICE_SECONDS = 5, 1.5
READY_WITHIN_SECONDS = 90.0
BODY = b'{"a":1}'


def _measured(port: int, pid: int, clients: int, seconds: float = SLICE_SECONDS) -> MeasuredLoad:
    one = request("/inference", BODY, content_type="application/json")
    return asyncio.run(measure(port, [one] * clients, seconds=seconds, pid=pid, warm=0.3))


@contextmanager
def _peer(python: str, source: str) -> Iterator[tuple[int, int]]:
    """Port and process of a server that answers."""
    with tempfile.TemporaryDirectory() as directory:
        file, log = Path(directory) / "server.py", Path(directory) / "log"
        file.write_text(source)
        port = free_port()
        command = [python, str(file), "--port", str(port)]
        with log.open("wb") as output:
            peer = subprocess.Popen(command, stdout=output, stderr=output, cwd=directory)
        try:
            end = time.monotonic() + READY_WITHIN_SECONDS
            while not _answers(port, peer.pid):
                if time.monotonic() > end or peer.poll() is not None:
                    raise RuntimeError(f"it does not answer: {log.read_text()[-2_000:]}")
                time.sleep(0.5)
            yield port, peer.pid
        finally:
            peer.terminate()
            try:
                peer.wait(20)
            except subprocess.TimeoutExpired:
                peer.kill()


def _answers(port: int, pid: int) -> bool:
    try:
        return set(_measured(port, pid, 1, seconds=0.2).statuses) == {200}
    except OSError:
        return False


def _compared(ours: RunningService, name: str, port: int, pid: int) -> Iterator[RequiredFigure]:
    for clients in (1, 16):
        slices = [
            (_measured(ours.port, ours.pid, clients), _measured(port, pid, clients)) for _ in range(SLICES)
        ]
        for whose, loads in zip(("runtime", name), zip(*slices, strict=True), strict=True):
            assert all(set(load.statuses) == {200} for load in loads), loads
            rate = statistics.median(load.per_cpu_second for load in loads)
            best = min(loads, key=lambda load: load.milliseconds(0.99))
            yield RequiredFigure(
                f"floor, {clients} clients, {whose}", f"{best.figures}, {rate:,.0f} per own CPU second"
            )
        ratio = statistics.median(mine.per_cpu_second / theirs.per_cpu_second for mine, theirs in slices)
        yield RequiredFigure(
            f"floor, {clients} clients: requests per own CPU second / {name}'s",
            f"{ratio:.2f}",
            "at least 1",
            ratio >= 1,
        )


def rows(peer_python: str) -> list[RequiredFigure]:
    told: list[RequiredFigure] = []
    with service(APP) as ours:
        if not peer_python:
            load = _measured(ours.port, ours.pid, 16)
            figures = f"{load.figures}, {load.per_cpu_second:,.0f} per own CPU second"
            return [RequiredFigure("floor, 16 clients, runtime", figures)]
        for name, source in PEERS.items():
            try:
                with _peer(peer_python, source) as (port, pid):
                    told += _compared(ours, name, port, pid)
            except RuntimeError as error:
                print(f"{name}: not measured: {error}", file=sys.stderr)
    return told
