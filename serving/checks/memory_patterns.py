"""Memory that does not keep what was written: patterns over what is free, written, then read back."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from serving.checks.device import DeviceUnderTest
from serving.checks.report import CheckOutcome, DeviceCheck

SHARE = 0.9
"""Of what is free: the driver, and the comparison itself, need some."""
CHUNK_BYTES = {"cuda": 256 * 2**20, "cpu": 8 * 2**20}
WORD_BYTES = 8
PATTERNS = (0, -1, 0x5555555555555555, -0x5555555555555556, 0x00FF00FF00FF00FF)
"""Words of 64 bits: all clear, all set, alternating both ways, alternating bytes."""
ALL_BITS = 0xFFFF_FFFF_FFFF_FFFF
NAME, UNIT = "memory_patterns", "wrong words"
Between = Callable[[list[torch.Tensor]], None]


def check(target: DeviceUnderTest, seconds: float, between: Between = lambda _: None) -> DeviceCheck:
    """At least one round of all patterns; as many as go into the time. `between` is called after each
    writing, with what was written.
    """
    words = CHUNK_BYTES[target.kind] // WORD_BYTES
    number = max(1, int(target.free_bytes() * SHARE) // CHUNK_BYTES[target.kind] - 2)
    chunks = [torch.empty(words, dtype=torch.int64, device=target.device) for _ in range(number)]
    own_number = torch.arange(words, dtype=torch.int64, device=target.device)
    fault = Fault()
    rounds, ends = 0, time.monotonic() + seconds
    while not rounds or time.monotonic() < ends:
        for pattern in PATTERNS:
            for chunk in chunks:
                chunk.fill_(pattern)
            target.finish()
            between(chunks)
            for index, chunk in enumerate(chunks):
                fault.add(chunk, chunk != pattern, f"{pattern & ALL_BITS:#018x}", index * words)
        for index, chunk in enumerate(chunks):
            torch.add(own_number, index * words, out=chunk)
        target.finish()
        between(chunks)
        for index, chunk in enumerate(chunks):
            chunk.sub_(index * words)
            fault.add(chunk, chunk != own_number, "each word its own number", index * words)
        rounds += 1
    tested = number * CHUNK_BYTES[target.kind] / 2**30
    said = f"{tested:.1f} GiB, {rounds} times {len(PATTERNS) + 1} patterns"
    if fault.words:
        told = f"{fault.words:,} words came back changed ({said}). {fault.first}"
        return target.check(NAME, CheckOutcome.FAILED, told, measured=fault.words, expected=0, unit=UNIT)
    return target.check(
        NAME, CheckOutcome.PASSED, f"{said}, all came back.", measured=0, expected=0, unit=UNIT
    )


@dataclass
class Fault:
    """Words that came back changed, and where the first was."""

    words: int = 0
    first: str = ""

    def add(self, chunk: torch.Tensor, off: torch.Tensor, pattern: str, offset_words: int) -> None:
        count = int(off.sum())
        if count and not self.first:
            word = int(off.nonzero()[0])
            place = (offset_words + word) * WORD_BYTES
            came = int(chunk[word]) & ALL_BITS
            self.first = f"The first, of {pattern}, at offset {place:#x}, came back as {came:#018x}."
        self.words += count
