"""On a machine with a GPU: a vision model batched and not, the hop to the GPU, a model's process killed under
load."""

import asyncio
import os
import signal
import subprocess
import time
from functools import partial
from typing import Any

from perf.required import RequiredFigure
from perf.serving.hop import SIZES, models, p50
from perf.serving.load import MeasuredLoad, measure, request
from perf.serving.running import RunningService, service
from serving.runtime.gpu_model import GpuModel

APP = """
import numpy as np
import torch
from torchvision.models import resnet50
from slipway import serve

class Network(serve.GpuModel):
    def load(self, files):
        torch.manual_seed(1)
        self.net = resnet50().half().cuda().eval().to(memory_format=torch.channels_last)
        for size in (1, 2, 4, 8, 16, 32, 64):
            self.infer([np.zeros((3, 224, 224), np.uint8)] * size)

    @torch.inference_mode()
    def infer(self, pictures):
        # Straight from the slots: each copy is one transfer from page-locked memory.
        batch = torch.empty((len(pictures), 3, 224, 224), dtype=torch.uint8, device="cuda")
        for row, picture in zip(batch, pictures):
            row.copy_(torch.from_numpy(picture), non_blocking=True)
        values = batch.half().div_(255).to(memory_format=torch.channels_last)
        return self.net(values).argmax(1).tolist()

    @serve.batched(max_size=64, max_wait_ms=2)
    def batched(self, pictures):
        return self.infer(pictures)

    @serve.batched(latency_ms=40)
    def bounded(self, pictures):
        return self.infer(pictures)

    def alone(self, picture):
        return self.infer([picture])[0]

app = serve.App(processes=32)

@app.post("/{method}")
def classify(method: str, body: bytes):
    model = serve.get(Network)
    picture = model.empty((3, 224, 224), "uint8")
    picture[:] = np.frombuffer(body, np.uint8).reshape(3, 224, 224)
    return {"label": model.run(method, picture)}
"""
PICTURE = bytes(3 * 224 * 224)


class ToGpu(GpuModel):
    """Copies an array to the GPU and reads one number back."""

    def load(self, files: Any) -> None:
        import torch

        self._there = torch.empty(max(SIZES) // 4, device="cuda")

    def touch(self, array: Any) -> float:
        return float(array[-1])

    def copy(self, array: Any) -> float:
        import torch

        there = self._there[: len(array)]
        there.copy_(torch.from_numpy(array), non_blocking=True)
        return float(there[-1])

    def copy_unpinned(self, array: Any) -> float:
        import torch

        there = self._there[: len(array)]
        there.copy_(torch.from_numpy(array.copy()))
        return float(there[-1])


def _hop() -> list[RequiredFigure]:
    told = []
    for size in SIZES:
        with models(ToGpu) as calling:
            handle = calling.handle(ToGpu)
            array = handle.empty((size // 4,))
            array[:] = 1
            for name in ("touch", "copy", "copy_unpinned"):
                figure = p50(partial(handle.run, name, array))
                told.append(RequiredFigure(f"hop of {size // 1_000} KB, {name}: p50", f"{figure:,.0f} us"))
    return told


def _load(running: RunningService, method: str, clients: int, seconds: float = 5.0) -> MeasuredLoad:
    return asyncio.run(
        measure(running.port, [request(f"/{method}", PICTURE)] * clients, seconds=seconds, pid=running.pid)
    )


async def _killed(running: RunningService) -> list[RequiredFigure]:
    asked = [request("/batched", PICTURE)] * 16
    loading = asyncio.create_task(measure(running.port, asked, seconds=25.0, pid=running.pid))
    await asyncio.sleep(3.0)
    victim = next(one for one in running.health()["processes"] if one["name"].startswith("Network"))
    killed_at = time.perf_counter()
    os.kill(victim["pid"], signal.SIGKILL)
    seen = await loading
    failed = [at for at, status in seen.answers if status != 200 and at >= killed_at] or [killed_at]
    back = min(
        (at for at, status in seen.answers if status == 200 and at > max(failed)), default=float("nan")
    )
    statuses = ", ".join(f"{count} x {status}" for status, count in sorted(seen.statuses.items()))
    return [
        RequiredFigure("killed under load: answers", statuses),
        RequiredFigure("killed under load: model answers again after", f"{back - killed_at:.1f} s"),
    ]


def rows(_: str) -> list[RequiredFigure]:
    # Not by torch: this process forks before CUDA may begin in it.
    named = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False).stdout
    told = [RequiredFigure("GPU", named.partition(" (")[0].strip() or "none")]
    told += _hop()
    with service(APP) as running:
        rates: dict[str, float] = {}
        for method in ("alone", "batched", "bounded"):
            for clients in (1, 8, 32):
                seen = _load(running, method, clients)
                assert set(seen.statuses) == {200}, seen.statuses
                rates[method] = max(rates.get(method, 0.0), seen.rate)
                figures = seen.figures
                told.append(RequiredFigure(f"resnet50 {method}, {clients} clients", figures))
        told += [
            RequiredFigure(
                f"resnet50 {method}: throughput / unbatched", f"{rates[method] / rates['alone']:.2f}"
            )
            for method in ("batched", "bounded")
        ]
        told += asyncio.run(_killed(running))
    return told
