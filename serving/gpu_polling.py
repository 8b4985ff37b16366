"""What this machine is asked once a minute: NVML and DCGM, where they are, and InfiniBand."""

import asyncio
import contextlib
import logging
import secrets
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from gpu_health.signals.dcgm import DcgmReader
from gpu_health.signals.infiniband import InfinibandReader
from gpu_health.signals.levels import Levels, ReadingDevice
from gpu_health.signals.nvml import NvmlReader
from gpu_health.signals.reading import GpuReading, ReadingSource
from serving.kernel_messages import DRIVER

log = logging.getLogger(__name__)

EVERY_SECONDS = 60.0
HANGS_AFTER_POLLS = 3
"""Missed in a row, as the fleets do that end a machine for it."""
DCGM_WITHIN_SECONDS = 20.0
MOST_DCGM_BYTES = 32 * 2**20
Read = Callable[[float], Sequence[GpuReading]]


@dataclass(frozen=True, slots=True)
class Probe:
    """`read` at the seconds since the epoch that it is given. It may hang, and hold back itself only."""

    source: ReadingSource
    read: Read


class GpuPolling:
    """Runs as one task. Each look has a thread of its own.

    One that does not return within three polls is told as `probe.hang`, and as cleared once it does. Such a
    thread cannot be ended: there is never a second of the same probe.
    """

    def __init__(
        self,
        take: Callable[[Sequence[GpuReading]], None],
        *probes: Probe,
        every_seconds: float = EVERY_SECONDS,
    ) -> None:
        self._take = take
        self._probes = probes
        self._every = every_seconds
        self._session = secrets.token_hex(6)

    async def run(self) -> None:
        await asyncio.gather(*map(self._poll, self._probes))

    async def _poll(self, probe: Probe) -> None:
        levels, where = Levels(probe.source, self._session), ReadingDevice(part=str(probe.source))
        while True:
            look = _on_a_thread(probe.read, time.time())
            await asyncio.wait({look}, timeout=HANGS_AFTER_POLLS * self._every)
            if not look.done():
                why = f"{probe.source} has not answered for {HANGS_AFTER_POLLS * self._every:.0f} s."
                self._take(levels.level("probe.hang", where, True, time.time(), raw=why))
            try:
                self._take(await look)
            except Exception:
                log.exception("GPU health cannot be read")
            self._take(levels.level("probe.hang", where, False, time.time()))
            await asyncio.sleep(self._every)


def _on_a_thread(read: Read, at: float) -> "asyncio.Future[Sequence[GpuReading]]":
    """A daemon's: the agent ends although it hangs, which the pool of asyncio would wait for."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Sequence[GpuReading]] = loop.create_future()

    def settle(found: Sequence[GpuReading], error: Exception | None) -> None:
        if future.cancelled():
            return
        if error is None:
            future.set_result(found)
        else:
            future.set_exception(error)

    def work() -> None:
        found: Sequence[GpuReading] = ()
        failed = None
        try:
            found = read(at)
        except Exception as error:
            failed = error
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, found, failed)

    threading.Thread(target=work, daemon=True).start()
    return future


def own_probes(dcgm_url: str = "") -> tuple[Probe, ...]:
    """Return the probes of this machine. Without a driver of GPUs there is no NVML to ask. `dcgm_url`: of
    dcgm-exporter's metrics; blank: it is not asked.
    """
    session = secrets.token_hex(6)
    probes = [Probe(ReadingSource.INFINIBAND, InfinibandReader(session=session).read)]
    if DRIVER.exists() and (library := _library()) is not None:
        probes.append(Probe(ReadingSource.NVML, NvmlReader(library, session=session).read))
    if dcgm_url:
        probes.append(Probe(ReadingSource.DCGM, DcgmProbe(dcgm_url, session=session).read))
    return tuple(probes)


class DcgmProbe:
    """Asks dcgm-exporter of this machine."""

    def __init__(self, url: str, *, session: str) -> None:
        self._url = url
        self._reader = DcgmReader(session=session)

    def read(self, at: float) -> Sequence[GpuReading]:
        try:
            with urllib.request.urlopen(self._url, timeout=DCGM_WITHIN_SECONDS) as answer:  # noqa: S310 - ours
                text = answer.read(MOST_DCGM_BYTES).decode(errors="replace")
        except (OSError, ValueError) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            return self._reader.unreachable(f"{self._url}: {reason}", at)
        return self._reader.read(text, at)


def _library() -> Any:
    try:
        return import_module("pynvml")
    except ImportError:
        log.warning("NVML is not asked: install slipway[gpu] on this machine")
        return None
