"""What the kernel of this machine says of its GPUs, out of `/dev/kmsg`, as readings. It acts on nothing."""

import asyncio
import contextlib
import errno
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from gpu_health.signals.kernel_log import KernelLogParser
from gpu_health.signals.reading import GpuReading, ReadingClock, ReadingKind, ReadingSource

KMSG = Path("/dev/kmsg")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
DRIVER = Path("/proc/driver/nvidia/version")
"""There where the driver of GPUs is loaded."""
RECORD_BYTES = 8_192
AT_ONCE = 1_000
"""Records read before others have their turn."""

Take = Callable[[Sequence[GpuReading]], None]


class KernelMessages:
    """Reads what the kernel's buffer still holds, then each record as it comes. Runs as one task.

    Never raises. A reading's `origin` is the boot and the record's number: what is read again counts once. A
    machine with GPUs whose messages may not be read says so, by a reading of the detector.
    """

    def __init__(self, take: Take, *, kmsg: Path = KMSG, driver: Path = DRIVER) -> None:
        self._take = take
        self._kmsg = kmsg
        self._driver = driver
        self._boot = boot_id()
        self._parser = KernelLogParser(booted_at=booted_at(), boot=self._boot)
        self._more = asyncio.Event()

    async def run(self) -> None:
        try:
            descriptor = os.open(self._kmsg, os.O_RDONLY | os.O_NONBLOCK)
        except OSError as error:
            self._cannot(error)
            return
        if self._driver.exists():
            self._detector(ReadingKind.CLEARED)
        loop = asyncio.get_running_loop()
        try:
            with contextlib.suppress(OSError):
                loop.add_reader(descriptor, self._more.set)
            while self._read(descriptor):
                self._more.clear()
                with contextlib.suppress(TimeoutError):
                    # wait_for of Python 3.11 may lose a cancellation that comes with the event.
                    async with asyncio.timeout(1.0):
                        await self._more.wait()
        finally:
            loop.remove_reader(descriptor)
            os.close(descriptor)

    def _read(self, descriptor: int) -> bool:
        """Whether there may be more later."""
        for _ in range(AT_ONCE):
            try:
                record = os.read(descriptor, RECORD_BYTES)
            except BlockingIOError:
                return True
            except OSError as error:
                if error.errno in (errno.EPIPE, errno.EINVAL, errno.EINTR):
                    # Overwritten before it was read, or longer than any: the next one.
                    continue
                self._cannot(error)
                return False
            if not record:
                return True
            # The clock may have been set since.
            self._parser.booted_at = booted_at()
            if readings := self._parser.feed(record):
                self._take(readings)
        return True

    def _cannot(self, error: OSError) -> None:
        if self._driver.exists():
            self._detector(ReadingKind.DETECTOR, f"{self._kmsg}: {error.strerror or error}")

    def _detector(self, kind: ReadingKind, words: str = "") -> None:
        now = time.time()
        reading = GpuReading(
            source=ReadingSource.KERNEL_LOG,
            fault="detector.kernel_log",
            kind=kind,
            at=now,
            clock=ReadingClock.EPOCH,
            raw=words,
            origin=f"{self._boot}/detector/{now:.3f}",
            boot=self._boot,
        )
        self._take([reading])


def booted_at() -> float:
    """Return the moment since which the kernel counts, by the clock as it stands now."""
    return time.time() - time.clock_gettime(time.CLOCK_MONOTONIC)


def boot_id() -> str:
    """Another one after each start of the machine; empty where the system does not say."""
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return ""
