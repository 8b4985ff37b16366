"""Traces of a model's process by torch's profiler, while it serves."""

import gzip
import io
import json
import threading
import zipfile
from pathlib import Path

import pytest

from tests.serving.runtime.rig import service

pytestmark = pytest.mark.process
APP = """
from slipway import serve
{}
class Net(serve.GpuModel):
    def load(self, files):
        self.weights = {}

    def work(self):
        return float((self.weights @ self.weights).sum())

app = serve.App(processes=1)

@app.get("/work")
def work(request):
    return serve.get(Net).run("work")
"""
WITH_TORCH = APP.format("import torch", "torch.ones(64, 64)")
WITHOUT = APP.format("import numpy", "numpy.ones((64, 64))")


def test_a_trace_has_the_operations_of_requests_served_meanwhile(tmp_path: Path) -> None:
    with service(tmp_path, WITH_TORCH) as worker:
        over = threading.Event()

        def ask() -> None:
            while not over.is_set():
                assert worker.client.get(f"{worker.url}/work").status_code == 200

        asking = threading.Thread(target=ask)
        asking.start()
        try:
            taken = worker.client.post(f"{worker.url}/torch-profile?seconds=1", timeout=90)
        finally:
            over.set()
            asking.join(30)
        assert taken.status_code == 200, taken.text
        archive = zipfile.ZipFile(io.BytesIO(taken.content))
        (name,) = archive.namelist()
        assert name.startswith("Net")
        events = json.loads(gzip.decompress(archive.read(name)))["traceEvents"]
        assert "aten::matmul" in {event.get("name") for event in events}

        wrong = worker.client.post(f"{worker.url}/torch-profile?seconds=0")
        assert wrong.status_code == 422
        through = {"x-forwarded-prefix": "/net"}
        assert worker.client.post(f"{worker.url}/torch-profile?seconds=1", headers=through).status_code == 404


def test_a_model_without_torch_says_so(tmp_path: Path) -> None:
    with service(tmp_path, WITHOUT) as worker:
        refused = worker.client.post(f"{worker.url}/torch-profile?seconds=1")
        assert (refused.status_code, "does not use torch" in refused.text) == (409, True)
