"""What this machine is asked once a minute: NVML, where its package and driver are, and InfiniBand."""

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from gpu_health.signals.infiniband import InfinibandReader
from gpu_health.signals.nvml import NvmlReader
from gpu_health.signals.reading import Reading
from serving.kernel_messages import DRIVER

log = logging.getLogger(__name__)

EVERY_SECONDS = 60.0
Read = Callable[[float], Sequence[Reading]]


class GpuPolling:
    """Runs as one task. Each look has a thread of its own: a driver that hangs holds back nothing else."""

    def __init__(self, take: Callable[[Sequence[Reading]], None], *readers: Read) -> None:
        self._take = take
        self._readers = readers or own_readers()

    async def run(self) -> None:
        await asyncio.gather(*map(self._poll, self._readers))

    async def _poll(self, read: Read) -> None:
        while True:
            try:
                self._take(await asyncio.to_thread(read, time.time()))
            except Exception:
                log.exception("GPU health cannot be read")
            await asyncio.sleep(EVERY_SECONDS)


def own_readers() -> tuple[Read, ...]:
    """Of this machine. Without a driver of GPUs there is no NVML to ask."""
    session = secrets.token_hex(6)
    readers: list[Read] = [InfinibandReader(session=session).read]
    if DRIVER.exists() and (library := _library()) is not None:
        readers.append(NvmlReader(library, session=session).read)
    return tuple(readers)


def _library() -> Any:
    try:
        return import_module("pynvml")
    except ImportError:
        log.warning("NVML is not asked: install slipway[gpu] on this machine")
        return None
