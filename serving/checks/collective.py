"""All-reduce between the GPUs of this machine: whether the sum is right, and the bus bandwidth it reaches.

Bus bandwidth as nccl-tests define it: bytes per second times 2 (n - 1) / n, which does not depend on n.
"""

import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from multiprocessing import get_context
from pathlib import Path
from queue import Empty
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import distributed

from serving.checks.bandwidth import UNIT, judged
from serving.checks.cpu_time import starved_seconds
from serving.checks.device import DeviceUnderTest
from serving.checks.expectations import expected_of
from serving.checks.report import CheckOutcome, DeviceCheck
from serving.checks.timing import Stopwatch

BYTES = {"cuda": 2**30, "cpu": 2**22}
WARM_UP = 3
BATCH = 5
JOIN_WITHIN = 60.0
LOOK_EVERY_SECONDS = 1.0
PATIENCE = 4
"""Times its limit it may take while its processes wait for a CPU: see `supervision`."""
NAME = "all_reduce"


class RankResult(NamedTuple):
    """Result of one process: 1e9 bytes a second of bus bandwidth, the share of the time in which it waited
    for a CPU, and what went wrong.
    """

    rank: int
    rate: float = 0.0
    starved: float = 0.0
    error: str = ""


def check(
    targets: Sequence[DeviceUnderTest],
    seconds: float,
    *,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> DeviceCheck:
    """Each GPU has a process of its own, with this `environment` for NCCL besides its own. One that hangs is
    ended after a minute more than the time."""
    if len(targets) < 2:
        return DeviceCheck(
            name=NAME, outcome=CheckOutcome.SKIPPED, words="One device alone has none to reduce with."
        )
    context = get_context("spawn")
    answers: Any = context.Queue()
    with tempfile.TemporaryDirectory(prefix="slipway-all-reduce-") as directory:
        meeting = f"file://{Path(directory) / 'meeting'}"
        ranks = [
            context.Process(
                target=_rank,
                args=(rank, len(targets), target, meeting, seconds, answers, dict(environment)),
                daemon=True,
            )
            for rank, target in enumerate(targets)
        ]
        for rank in ranks:
            rank.start()
        limit, starved = seconds + JOIN_WITHIN, 0.0
        began = time.monotonic()
        results: list[RankResult] = []
        try:
            while len(results) < len(ranks):
                with suppress(Empty):
                    results.append(answers.get(timeout=LOOK_EVERY_SECONDS))
                    continue
                took, starved = time.monotonic() - began, max(starved_seconds(rank.pid) for rank in ranks)
                if took < limit + min(starved, (PATIENCE - 1) * limit):
                    continue
                words = f"All-reduce over {len(targets)} devices did not end within {took:.0f} s."
                if took - starved >= limit:
                    return DeviceCheck(name=NAME, outcome=CheckOutcome.FAILED, words=words, unit=UNIT)
                words += f" A process waited {starved:.0f} s for a CPU of the machine."
                return DeviceCheck(name=NAME, outcome=CheckOutcome.INCONCLUSIVE, words=words, unit=UNIT)
        finally:
            for rank in ranks:
                rank.kill()
    return _judge(targets, results)


def _judge(targets: Sequence[DeviceUnderTest], results: Sequence[RankResult]) -> DeviceCheck:
    if wrong := sorted(one for one in results if one.error):
        where = targets[wrong[0].rank].bus_id or f"rank {wrong[0].rank}"
        return DeviceCheck(
            name=NAME, outcome=CheckOutcome.FAILED, words=f"{where}: {wrong[0].error}", unit=UNIT
        )
    slowest = min(one.rate for one in results)
    expected = expected_of(targets[0].model)
    least = expected.all_reduce_gbs if expected and expected.all_reduce_gbs else None
    # Of all together: no GPU of theirs is to blame before it was tried without it.
    together = DeviceUnderTest(targets[0].kind, 0, targets[0].model)
    # Each waits for the one that is late.
    return judged(together, NAME, slowest, least, starved=max(one.starved for one in results))


def _rank(
    rank: int, size: int, target: DeviceUnderTest, meeting: str, seconds: float, answers: Any,
    environment: Mapping[str, str],
) -> None:  # fmt: skip
    os.environ.update(environment)
    try:
        answers.put(_bus_bandwidth(rank, size, target, meeting, seconds))
    except Exception as error:
        answers.put(RankResult(rank, error=f"{type(error).__name__}: {error}"[:300]))


def _bus_bandwidth(rank: int, size: int, target: DeviceUnderTest, meeting: str, seconds: float) -> RankResult:
    if target.is_gpu:
        torch.cuda.set_device(target.device)
    distributed.init_process_group(
        "nccl" if target.is_gpu else "gloo",
        init_method=meeting,
        rank=rank,
        world_size=size,
        timeout=timedelta(seconds=PATIENCE * (seconds + JOIN_WITHIN)),
    )
    try:
        values = torch.full((BYTES[target.kind] // 4,), float(rank + 1), device=target.device)
        distributed.all_reduce(values)
        target.finish()
        total = size * (size + 1) / 2
        if wrong := int((values != total).sum()):
            raise RuntimeError(f"{wrong:,} sums are wrong, such as {float(values[values != total][0])!r}")
        values.zero_()
        rounds = _rounds(target, values, seconds)
        target.finish()
        watch = Stopwatch(target)
        watch.run(lambda: distributed.all_reduce(values), rounds)
        rate = values.numel() * 4 / watch.median_seconds / 1e9
        return RankResult(rank, rate * 2 * (size - 1) / size, watch.starved_share)
    finally:
        distributed.destroy_process_group()


def _rounds(target: DeviceUnderTest, values: torch.Tensor, seconds: float) -> int:
    """Return how many rounds fit: as many on each rank, or those that do more wait for ever."""
    for _ in range(WARM_UP):
        distributed.all_reduce(values)
    target.finish()
    began = time.monotonic()
    for _ in range(BATCH):
        distributed.all_reduce(values)
    target.finish()
    each = torch.tensor([(time.monotonic() - began) / BATCH], device=target.device)
    distributed.all_reduce(each, op=distributed.ReduceOp.MAX)
    return max(BATCH, int(seconds / max(float(each[0]), 1e-6)))
