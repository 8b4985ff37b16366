"""A graph with tasks on a real GPU, profiled, planned and run: `python -m perf.graphs_on_gpu`.

`decode` and `render` take cores (JPEG pictures), `Detect` (a convolutional net) and `Match` (matrix products)
a card. The profile has each task's time share and memory of the card, and how much longer it takes beside the
others; the planner makes the plan. It runs beside one process per task, and beside copies of the whole chain
that hold as much memory, of machine and card together. Without a GPU the same runs with tiny models on cores,
which tries this file and says nothing about cards. `perf.graphs` takes these figures where it finds a GPU.
"""

import asyncio
import os
import shutil
import time
from math import ceil
from pathlib import Path
from typing import Any

from graphs.planning.documents import request_of
from graphs.planning.explain import explain
from graphs.planning.model import PlannedGraph, PlanRequest
from graphs.planning.planner import make_plan
from graphs.planning.requests import request_document, runtime_plan
from perf.graph_runs import copies, pipelined, written
from perf.required import RequiredFigure, at_least, report
from serving.graphs.loading import load_graph
from serving.graphs.plan import EntryLimits, GraphPlan
from serving.graphs.profiling import profile

APP = """
import io
import numpy as np
import torch
from PIL import Image, ImageFilter
from slipway import graph

DEVICE, WIDTH, LAYERS, DIM, DEPTH = {sizes}
TYPE = torch.float16 if DEVICE == "cuda" else torch.float32

def encoded(seed):
    noise = np.random.default_rng(seed).integers(0, 255, (75, 100, 3), "uint8")
    picture = Image.fromarray(noise).resize((1600, 1200), Image.Resampling.BICUBIC)
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=90)
    return file.getvalue()

PICTURES = [encoded(seed) for seed in range(4)]

@graph.task(device="cpu")
def decode(x: int) -> np.ndarray:
    picture = Image.open(io.BytesIO(PICTURES[x % 4])).convert("RGB")
    return np.asarray(picture.resize((640, 480), Image.Resampling.BILINEAR))

@graph.task(batch=graph.Batch(max_size=16, max_wait_ms=20), device=DEVICE)
class Detect:
    def load(self, files):
        torch.manual_seed(1)
        def convolution(before, after, stride):
            return [torch.nn.Conv2d(before, after, 3, stride, 1), torch.nn.ReLU()]
        layers = convolution(3, WIDTH, 4)
        for _ in range(LAYERS):
            layers += convolution(WIDTH, WIDTH, 1)
        layers += [torch.nn.AdaptiveAvgPool2d(8), torch.nn.Flatten(2)]
        self.net = torch.nn.Sequential(*layers).to(DEVICE, TYPE, memory_format=torch.channels_last)

    @torch.inference_mode()
    def run(self, pictures: list[np.ndarray]) -> list[np.ndarray]:
        pixels = torch.from_numpy(np.stack([picture[::2, ::2] for picture in pictures])).to(DEVICE)
        pixels = pixels.permute(0, 3, 1, 2).to(TYPE) / 255
        return list(self.net(pixels).float().cpu().numpy())

@graph.task(batch=graph.Batch(max_size=16, max_wait_ms=20), device=DEVICE)
class Match:
    def load(self, files):
        torch.manual_seed(2)
        self.weights = [torch.randn(DIM, DIM, device=DEVICE, dtype=TYPE) / DIM**0.5 for _ in range(DEPTH)]

    @torch.inference_mode()
    def run(self, features: list[np.ndarray]) -> list[np.ndarray]:
        values = torch.from_numpy(np.stack(features)).to(DEVICE, TYPE).flatten(1)
        values = values.repeat(1, DIM * 64 // values.shape[1] + 1)[:, : DIM * 64].reshape(-1, DIM)
        for weights in self.weights:
            values = torch.nn.functional.gelu(values @ weights)
        return list(values.reshape(len(features), -1)[:, :64].float().cpu().numpy())

@graph.task(device="cpu")
def render(pixels: np.ndarray, found: np.ndarray) -> bytes:
    picture = Image.fromarray(np.array(pixels)).filter(ImageFilter.GaussianBlur(float(abs(found[0])) % 1 + 2))
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=90)
    return file.getvalue()

with graph.Graph("pictures") as g:
    pixels = decode(g.input("x", int))
    g.output(render(pixels, Match()(Detect()(pixels))))
"""
ON_A_CARD = ("cuda", 128, 24, 4096, 48)
ON_CORES = ("cpu", 8, 2, 64, 2)
SECONDS = 5.0
"""Length of a run, by what is expected of it."""


def has_card() -> bool:
    return shutil.which("nvidia-smi") is not None and os.system("nvidia-smi -L > /dev/null") == 0


def figures(*, on_card: bool) -> list[RequiredFigure]:
    """Profile, plan and run; print what was found. Raises NoPlan, GraphError."""
    file = written(APP.replace("{sizes}", repr(ON_A_CARD if on_card else ON_CORES)))
    source = file.parent / "items.jsonl"
    source.write_text("".join(f"{number}\n" for number in range(16)))
    began = time.monotonic()
    found = profile(file, source, device="cuda" if on_card else "cpu")
    print(f"profile, {time.monotonic() - began:.0f} s, on {found['machine']}")
    for one in found["tasks"]:
        print(_line(one))
    graph = load_graph(file).description
    document = request_document(graph, found["tasks"], machines=[found["machine"]], objective="throughput")
    request = request_of(document)
    planned = make_plan(request)
    tasks = [{"task": one.task, "replicas": one.replicas, **_places(one)} for one in planned.tasks]
    plan = runtime_plan(graph, document, {"tasks": tasks, "rate": planned.rate, "latency": planned.latency})
    for one in planned.tasks:
        print(f"  {one.task}: {one.replicas} on {one.option}, batch {one.batch}, busy {one.busy:.0%}")
    slow = [(one.kind, one.name, f"{one.share:.0%}") for one in explain(request, planned).bottlenecks]
    bound = bound_of(request, planned)
    print(f"plan by {planned.method}: {planned.most:.1f} items/s, bound {bound:.1f}, held back by {slow}")

    one_each = GraphPlan.of_one_each(graph)
    by_plan, memory = measured(file, plan, planned.most)
    print(f"plan, measured: {by_plan:.1f} items/s in {memory / 2**30:.2f} GiB")
    by_one, _ = measured(file, GraphPlan(tasks=one_each.tasks, entry=EntryLimits(items=32)), planned.most / 6)
    print(f"one process a task: {by_one:.1f} items/s")
    _, of_one = copies(file, 32, 1)
    count = max(1, min(os.cpu_count() or 1, ceil(memory / of_one)))
    most = max(16, int(SECONDS * planned.most / 6))
    seconds, of_copies = copies(file, most, count)
    print(f"{count} copies: {most / seconds:.1f} items/s in {of_copies / 2**30:.2f} GiB")
    return [
        at_least("measured over the bound of cores and cards", by_plan / bound, 0.9),
        at_least("plan over one process a task", by_plan / by_one, 2.0),
        at_least("plan over copies of the chain at equal memory", by_plan * seconds / most, 1.3),
        at_least("prediction against measured", min(planned.most, by_plan) / max(planned.most, by_plan), 0.9),
    ]


def _line(one: dict[str, Any]) -> str:
    times = ", ".join(
        f"{time['size']}: {time['seconds'] * 1e3:.2f} (+-{time['half_width'] * 1e3:.2f})"
        for time in one["times"]
    )
    last = one["times"][-1]
    card = f", card time {one['card_time']:.0%}, {last['card_memory'] / 2**20:.0f} MiB" if one["card"] else ""
    return (
        f"  {one['task']} on {one['option']}: ms by batch {times}; {one['cores']:.2f} cores, "
        f"{last['memory'] / 2**20:.0f} MiB{card}; x{one['interference']:.2f} beside {one['neighbours']}"
    )


def _places(one: Any) -> dict[str, Any]:
    places = [{"machine": at.machine, "card": at.card, "count": at.count} for at in one.places]
    return {"option": one.option, "batch": one.batch, "wait": one.wait, "places": places}


def bound_of(request: PlanRequest, planned: PlannedGraph) -> float:
    """Return min(cores, cards) / work of an item, by the options and batches of the plan."""
    cores = cards = 0.0
    for task in request.tasks:
        chosen = planned.of(task.name)
        option = next(one for one in task.options if one.name == chosen.option)
        batch = next(one for one in option.times if one.size == chosen.batch)
        work = task.visits * batch.seconds / batch.size
        cores += work * option.cores
        cards += work * option.card_time if option.card else 0.0
    machine = request.machines[0]
    return min(machine.cores / cores, len(machine.cards) / cards if cards else float("inf"))


def measured(file: Path, plan: GraphPlan, expected: float) -> tuple[float, int]:
    """Return items per second and bytes of all processes."""
    items = max(32, int(SECONDS * expected))
    run = asyncio.run(pipelined(file, plan, items, warm=2 * plan.entry.items))
    return items / run.seconds, run.memory


def main() -> int:
    print(f"cores {os.cpu_count()}, load {os.getloadavg()[0]:.1f}")
    if not (on_card := has_card()):
        print("NO GPU: tiny models on cores; nothing here is about cards")
    return report(figures(on_card=on_card))


if __name__ == "__main__":
    raise SystemExit(main())
