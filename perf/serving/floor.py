"""What one request costs that asks for nothing: requests per CPU second of the server's own processes."""

import asyncio
import subprocess
import tempfile
import time
from pathlib import Path

from perf.required import RequiredFigure
from perf.serving.load import MeasuredLoad, measure, request
from perf.serving.running import free_port, service

APP = """
from slipway import serve

app = serve.App(processes=1)

@app.post("/inference")
def hello(request):
    return {"hello": "world"}
"""
MOSEC = """
from mosec import Server, Worker

class Hello(Worker):
    def forward(self, data):
        return {"hello": "world"}

if __name__ == "__main__":
    server = Server()
    server.append_worker(Hello, num=1)
    server.run()
"""
SECONDS = 4.0
BODY = b'{"a":1}'


def _measured(port: int, pid: int, clients: int) -> MeasuredLoad:
    one = request("/inference", BODY, content_type="application/json")
    return asyncio.run(measure(port, [one] * clients, seconds=SECONDS, pid=pid))


def rows(peer_python: str) -> list[RequiredFigure]:
    told: list[RequiredFigure] = []
    with tempfile.TemporaryDirectory() as directory, service(APP) as ours:
        file = Path(directory) / "server.py"
        file.write_text(MOSEC)
        port = free_port()
        peer = None
        if peer_python:
            command = [peer_python, str(file), "--port", str(port)]
            peer = subprocess.Popen(
                command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=directory
            )
            time.sleep(5)
        try:
            for clients in (1, 16):
                mine = _measured(ours.port, ours.pid, clients)
                told.append(_row("runtime", clients, mine))
                if peer is not None:
                    theirs = _measured(port, peer.pid, clients)
                    told.append(_row("mosec", clients, theirs))
                    ratio = mine.per_cpu_second / theirs.per_cpu_second
                    told.append(
                        RequiredFigure(
                            f"floor, {clients} clients: ours / mosec's",
                            f"{ratio:.2f}",
                            "at least 1",
                            ratio >= 1,
                        )
                    )
        finally:
            if peer is not None:
                peer.terminate()
                peer.wait(10)
    return told


def _row(name: str, clients: int, load: MeasuredLoad) -> RequiredFigure:
    figures = f"{load.figures}, {load.per_cpu_second:,.0f} per own CPU second"
    return RequiredFigure(f"floor, {clients} clients, {name}", figures)
