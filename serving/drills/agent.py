"""What an agent reads of a machine that is played, beside what it reads of the machine itself."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from gpu_health.signals.nvml import NvmlReader
from gpu_health.signals.reading import GpuReading, ReadingSource, details
from serving.drills.machine import KMSG, read_play
from serving.drills.nvml import played_module
from serving.gpu_polling import GpuPolling, Probe
from serving.kernel_messages import KernelMessages

LOOK_EVERY_SECONDS = 1.0
ASK_EVERY_SECONDS = 5.0
"""A machine's own GPUs are asked once a minute: nobody wants to watch that."""
Take = Callable[[Sequence[GpuReading]], None]


class PlayedMachine:
    """Runs as one task. While nothing is played in `directory` it does nothing but look there."""

    def __init__(self, take: Take, directory: Path) -> None:
        self._take = take
        self._directory = directory

    async def run(self) -> None:
        while True:
            play = read_play(self._directory)
            if play is not None:
                await self._follow(play.drill, play.gpus)
            await asyncio.sleep(LOOK_EVERY_SECONDS)

    async def _follow(self, drill: int, gpus: int) -> None:
        """Until another one is played, or none."""
        # Whether the real messages can be read is not this one's to say: it knows no driver.
        messages = KernelMessages(
            self._marked(drill), kmsg=self._directory / KMSG, driver=self._directory / "driver"
        )
        tasks = [asyncio.create_task(messages.run())]
        library = played_module(lambda: read_play(self._directory))
        if library is not None:
            session = f"drill-{drill}-{time.time():.0f}"
            reader = NvmlReader(library, session=session, expected_gpus=gpus)
            polling = GpuPolling(
                self._marked(drill), Probe(ReadingSource.NVML, reader.read), every_seconds=ASK_EVERY_SECONDS
            )
            tasks.append(asyncio.create_task(polling.run()))
        try:
            while (now := read_play(self._directory)) is not None and now.drill == drill:
                await asyncio.sleep(LOOK_EVERY_SECONDS)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _marked(self, drill: int) -> Take:
        def take(readings: Sequence[GpuReading]) -> None:
            self._take(
                [
                    replace(one, details=details({**dict(one.details), "drill": str(drill)}))
                    for one in readings
                ]
            )

        return take
