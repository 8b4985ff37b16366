"""Pictures by diffusion: a pipeline of diffusers as a GpuModel (`serve.diffusion`).

Attention is torch's `scaled_dot_product_attention`, which takes FlashAttention where the GPU has it. With
guidance a pipeline computes each step for the prompt and for the empty prompt; two processes, each with a
device of its own, can share that: each computes a half and both get the whole, so that the picture stays the
same.
"""

import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from serving.leash import end_with_parent
from serving.runtime.errors import AppError, Problem
from serving.runtime.gpu_model import Files, GpuModel, batched

PARTNER_WITHIN_SECONDS = 600


@dataclass(frozen=True, kw_only=True)
class PictureOrder:
    """The picture that is wanted. The same order gives the same picture, alone or in a batch."""

    prompt: str
    negative_prompt: str = ""
    width: int = 512
    height: int = 512
    steps: int = 30
    guidance: float = 7.5
    seed: int = 0


def same_shape(order: PictureOrder) -> Hashable:
    """Orders with equal keys share a batch: the pipeline takes one size, number of steps and guidance."""
    return (order.width, order.height, order.steps, order.guidance)


class DiffusionModel(GpuModel):
    """A text-to-image pipeline. A subclass may set the limits, and `guidance_processes` to 2."""

    folder = ""
    """Of the version's files, with the pipeline's `model_index.json`; empty: beside the app."""
    max_side, side_multiple = 1_024, 8
    max_steps = 100
    guidance_processes = 1
    """2: a second process computes the guidance's other half, on the next GPU if there is one."""
    timeout_seconds = 600.0

    def load(self, files: Mapping[str, Path]) -> None:
        if not isinstance(files, Files):
            raise AppError("serve.diffusion: a pipeline is loaded from a version's directory")
        directory = files.directory / self.folder
        if self.guidance_processes not in (1, 2):
            raise AppError("serve.diffusion: guidance_processes must be 1 or 2")
        self.pipeline = load_pipeline(directory, device=0)
        self._pair = _Pair(self.pipeline, directory) if self.guidance_processes == 2 else None

    def checked(self, order: PictureOrder) -> PictureOrder:
        """The order, if it is within the limits. Raises Problem (422)."""
        sides = (order.width, order.height)
        if not all(1 <= side <= self.max_side and side % self.side_multiple == 0 for side in sides):
            words = f"Width and height must be multiples of {self.side_multiple} up to {self.max_side}."
            raise Problem(422, "Picture too large or of an odd size", words)
        if not 1 <= order.steps <= self.max_steps:
            raise Problem(422, "Too many steps", f"Steps must be from 1 to {self.max_steps}.")
        return order

    @batched(max_size=8, max_wait_ms=20, bucket=same_shape)
    def pictures(self, orders: Sequence[PictureOrder]) -> list[Any]:
        """Arrays of height, width and 3 colours, 0 to 255, one for each order."""
        return list(self._run([self.checked(order) for order in orders]))

    def picture_with_progress(self, order: PictureOrder) -> Iterator[Any]:
        """`{"step": 3, "steps": 30}` after each step, then the array."""
        told: queue.Queue[Any] = queue.Queue()
        cancelled = threading.Event()

        def stepped(pipeline: Any, index: int, _timestep: Any, tensors: dict[str, Any]) -> dict[str, Any]:
            if cancelled.is_set() and self._pair is None:  # a partner would wait for the rest
                pipeline._interrupt = True  # diffusers' own way to leave the loop
            told.put({"step": index + 1, "steps": order.steps})
            return tensors

        def work() -> None:
            try:
                told.put(self._run([order], callback_on_step_end=stepped)[0])
            except Exception as error:
                told.put(error)

        self.checked(order)
        worker = threading.Thread(target=work)
        worker.start()
        try:
            while True:
                piece = told.get()
                if isinstance(piece, Exception):
                    raise piece
                yield piece
                if not isinstance(piece, dict):
                    return
        finally:
            cancelled.set()
            worker.join()

    def _run(self, orders: Sequence[PictureOrder], **more: Any) -> Any:
        if self._pair is not None:
            self._pair.tell([asdict(order) for order in orders])
        return run_pipeline(self.pipeline, orders, **more)


def load_pipeline(directory: Path, *, device: int) -> Any:
    """On the GPU of that number, or the processor where there is none."""
    import torch
    from diffusers import DiffusionPipeline

    from serving.runtime.rounded_networks import rounded_networks

    has_gpu = torch.cuda.device_count() > device
    dtype = torch.bfloat16 if has_gpu else torch.float32
    pipeline = DiffusionPipeline.from_pretrained(
        directory, dtype=dtype, local_files_only=True, **rounded_networks(directory, dtype=dtype)
    )
    pipeline.set_progress_bar_config(disable=True)
    return pipeline.to(f"cuda:{device}" if has_gpu else "cpu")


def run_pipeline(pipeline: Any, orders: Sequence[PictureOrder], **more: Any) -> Any:
    import torch

    first = orders[0]
    noise = [torch.Generator("cpu").manual_seed(order.seed) for order in orders]
    with torch.inference_mode():
        result = pipeline(
            prompt=[order.prompt for order in orders],
            negative_prompt=[order.negative_prompt for order in orders],
            width=first.width,
            height=first.height,
            num_inference_steps=first.steps,
            guidance_scale=first.guidance,
            generator=noise,
            output_type="np",
            **more,
        )
    return (result.images * 255).round().astype("uint8")


class _Pair:
    """This process's half of a guidance that two share; the other half is a child."""

    def __init__(self, pipeline: Any, directory: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            address = f"tcp://127.0.0.1:{probe.getsockname()[1]}"
        self._partner = subprocess.Popen(
            [sys.executable, "-m", "serving.runtime.diffusion", str(directory), address],
            preexec_fn=lambda: end_with_parent(signal.SIGKILL),
            stdin=subprocess.PIPE,
            text=True,
        )
        _join(address, rank=0)
        share_guidance(pipeline)

    def tell(self, orders: list[dict[str, Any]]) -> None:
        """Lets the partner take the same steps. Without it this process ends, and both are started again."""
        try:
            assert self._partner.stdin is not None  # noqa: S101 - a pipe
            self._partner.stdin.write(json.dumps(orders) + "\n")
            self._partner.stdin.flush()
        except OSError:
            os._exit(1)


def share_guidance(pipeline: Any) -> None:
    """Have the pipeline's network, where it gets a batch of two halves, compute the half of this process's
    rank and gather both, from now on.
    """
    import torch
    import torch.distributed as distributed

    network = pipeline.unet if getattr(pipeline, "unet", None) is not None else pipeline.transformer
    whole, rank = network.forward, distributed.get_rank()

    def half(sample: Any, *arguments: Any, **named: Any) -> Any:
        if not pipeline.do_classifier_free_guidance:
            return whole(sample, *arguments, **named)

        def own(value: Any) -> Any:
            if isinstance(value, dict):
                return {name: own(one) for name, one in value.items()}
            is_doubled = isinstance(value, torch.Tensor) and value.ndim > 0 and len(value) == len(sample)
            return value.chunk(2)[rank] if is_doubled else value

        mine = whole(own(sample), *map(own, arguments), **{name: own(value) for name, value in named.items()})
        noise = mine[0].contiguous()
        halves = [torch.empty_like(noise) for _ in range(2)]
        try:
            distributed.all_gather(halves, noise)
        except RuntimeError:
            os._exit(1)  # the other process is gone: whoever keeps this one starts both again
        return (torch.cat(halves), *mine[1:])

    network.forward = half


def _join(address: str, *, rank: int) -> None:
    from datetime import timedelta

    import torch
    import torch.distributed as distributed

    backend = "nccl" if torch.cuda.device_count() > 1 else "gloo"
    if backend == "gloo":
        torch.set_num_threads(max(1, torch.get_num_threads() // 2))
    distributed.init_process_group(
        backend,
        init_method=address,
        rank=rank,
        world_size=2,
        timeout=timedelta(seconds=PARTNER_WITHIN_SECONDS),
    )


def partner(directory: Path, address: str) -> None:
    """Takes the same steps as the process that started it, until that ends."""
    pipeline = load_pipeline(directory, device=1)
    _join(address, rank=1)
    share_guidance(pipeline)
    for line in sys.stdin:
        run_pipeline(pipeline, [PictureOrder(**order) for order in json.loads(line)])


if __name__ == "__main__":
    partner(Path(sys.argv[1]), sys.argv[2])
