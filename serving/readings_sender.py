"""Readings of GPU health on their way: kept on disk until the control plane has stored them."""

import asyncio
import contextlib
import json
import logging
import os
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from gpu_health.signals.reading import BadReading, GpuReading, ReadingClock
from serving.http_client import HttpConnection, HttpError, Url
from serving.kernel_messages import boot_id

log = logging.getLogger(__name__)

READINGS = "gpu-health/readings/"
"""Beside the reports of a machine."""
AT_ONCE = 200
MOST_KEPT = 10_000
"""Beyond that the oldest of what is said most often go: what a GPU says again and again is worth less than
what another one has said once."""
ANSWER_WITHIN_SECONDS = 10.0
SHORTEST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0


SEEN = "seen"
"""In the spool alone: when a reading was seen, in seconds since the machine's start."""


def ticks_of_this_start() -> float:
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class ReadingsSender:
    """`take` what was seen; it is sent in batches until an answer says that it is stored.

    What is not sent lies in `spool`, one JSON object a line, and goes on after a restart. Without a spool it
    is kept in memory. `lost` counts what had to go. Runs as one task and never raises.

    Times are kept by the clock that nobody sets (`ticks`, of this start of the machine) and become dates as
    they are sent: a clock that was set meanwhile makes no fault older or younger.
    """

    def __init__(
        self,
        *urls: str,
        token_file: Path,
        spool: Path | None = None,
        clock: Callable[[], float] = time.time,
        ticks: Callable[[], float] = ticks_of_this_start,
    ) -> None:
        self._clock, self._ticks, self._boot = clock, ticks, boot_id()
        self._urls = [Url.parse(readings_url(url)) for url in urls]
        self._token_file = token_file
        self._spool = spool
        self._unsent: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self._wake = asyncio.Event()
        self.lost = 0
        self._load()

    @property
    def unsent(self) -> int:
        return len(self._unsent)

    def take(self, readings: Sequence[GpuReading]) -> None:
        """Take readings; those without an origin cannot be told apart and are not taken."""
        new = {
            one.origin: self._kept(one) for one in readings if one.origin and one.origin not in self._unsent
        }
        if not new:
            return
        self._unsent.update(new)
        self._bound()
        self._append(list(new.values()))
        self._wake.set()

    async def run(self) -> None:
        pause = SHORTEST_PAUSE_SECONDS
        while True:
            if not self._unsent:
                self._wake.clear()
                await self._wake.wait()
            if await self.send():
                pause = SHORTEST_PAUSE_SECONDS
                continue
            await asyncio.sleep(pause)
            pause = min(LONGEST_PAUSE_SECONDS, pause * 2)

    async def send(self) -> bool:
        """Send one batch; False when nobody has stored it."""
        batch = dict(list(self._unsent.items())[:AT_ONCE])
        if not batch:
            return True
        readings = list(map(self._dated, batch.values()))
        document = {"readings": readings, "sent_at": self._clock(), "boot": self._boot}
        body = json.dumps(document, separators=(",", ":")).encode()
        for _ in range(len(self._urls)):
            try:
                async with asyncio.timeout(ANSWER_WITHIN_SECONDS):
                    await self._post(body)
            except (HttpError, OSError, TimeoutError, ValueError) as error:
                log.warning("readings are not taken: %s", str(error) or type(error).__name__)
                self._urls.append(self._urls.pop(0))
                continue
            for origin in batch:
                self._unsent.pop(origin, None)
            self._rewrite()
            return True
        return False

    async def _post(self, body: bytes) -> None:
        """Stored, known or refused: all three are answers. Raises HttpError, OSError, ValueError."""
        headers = {
            "content-type": "application/json",
            "authorization": f"Bearer {self._token_file.read_text().strip()}",
        }
        connection = await HttpConnection.open(self._urls[0])
        try:
            status = await connection.request("POST", self._urls[0], headers=headers, body=body)
            answer = b"".join([part async for part in connection.body()])
        finally:
            await connection.close()
        if not 200 <= status < 300:
            raise HttpError(f"status {status}: {answer[:200].decode(errors='replace')}")
        document = json.loads(answer)
        if not isinstance(document, dict) or "stored" not in document:
            raise HttpError("the answer does not say what was stored")
        for refusal in document.get("refused", ()):
            log.warning("a reading was refused: %s", refusal)

    def _kept(self, reading: GpuReading) -> dict[str, Any]:
        kept = {"boot": self._boot} | reading.to_dict()
        if reading.clock is ReadingClock.EPOCH:
            kept[SEEN] = {"boot": self._boot, "ticks": self._ticks() - (self._clock() - reading.at)}
        return kept

    def _dated(self, kept: dict[str, Any]) -> dict[str, Any]:
        """Date a reading by the clock as it stands; of another start of the machine, by its clock then."""
        seen, told = kept.get(SEEN), {name: value for name, value in kept.items() if name != SEEN}
        if seen and self._boot and seen["boot"] == self._boot:
            told["at"] = max(0.0, self._clock() - (self._ticks() - seen["ticks"]))
        return told

    def _bound(self) -> None:
        if len(self._unsent) <= MOST_KEPT:
            return
        counts = Counter(map(_kind, self._unsent.values()))
        while len(self._unsent) > MOST_KEPT:
            most = max(counts, key=counts.__getitem__)
            counts[most] -= 1
            del self._unsent[next(origin for origin, one in self._unsent.items() if _kind(one) == most)]
            self.lost += 1

    def _load(self) -> None:
        if self._spool is None:
            return
        try:
            lines = self._spool.read_text(errors="replace").splitlines()
        except OSError:
            return
        for line in lines:
            # The last line may be half written.
            with contextlib.suppress(ValueError, BadReading):
                document = json.loads(line)
                reading = GpuReading.from_dict(document)
                if reading.origin:
                    self._unsent[reading.origin] = reading.to_dict() | _seen_of(document)
        self._bound()
        if self._unsent:
            self._wake.set()

    def _append(self, documents: Sequence[dict[str, Any]]) -> None:
        if self._spool is None:
            return
        try:
            if self._spool.exists() and self._spool.stat().st_size > MOST_KEPT * 1_000:
                self._rewrite()
                return
            with self._spool.open("a") as file:
                file.write("".join(f"{json.dumps(one)}\n" for one in documents))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            log.warning("readings cannot be kept in %s: %s", self._spool, error.strerror)

    def _rewrite(self) -> None:
        if self._spool is None:
            return
        draft = self._spool.with_suffix(".new")
        try:
            draft.write_text("".join(f"{json.dumps(one)}\n" for one in self._unsent.values()))
            draft.replace(self._spool)
        except OSError as error:
            log.warning("readings cannot be kept in %s: %s", self._spool, error.strerror)


def _kind(document: dict[str, Any]) -> tuple[str, str]:
    return document["fault"], document.get("gpu_bus_id", "") or document.get("gpu_uuid", "")


def _seen_of(document: dict[str, Any]) -> dict[str, Any]:
    seen = document.get(SEEN)
    if not isinstance(seen, dict) or not isinstance(seen.get("ticks"), int | float):
        return {}
    return {SEEN: {"boot": str(seen.get("boot", "")), "ticks": float(seen["ticks"])}}


def readings_url(report_url: str) -> str:
    """Return the URL for readings, given the address that reports go to."""
    return report_url if report_url.startswith("unix:") else urljoin(report_url, f"../{READINGS}")
