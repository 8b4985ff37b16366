"""Progress of a fetch: a line in the log of the container that fetches, which people and programs read.

story:v1 come_bytes=4187593113 size_bytes=15206301952 bytes_per_second=512000000 left_seconds=22 (27 %, ...)
"""

import re
from dataclasses import dataclass
from typing import Self

_LINE = re.compile(
    r"(?P<version>\S+) come_bytes=(?P<come>\d+) size_bytes=(?P<size>\d+) bytes_per_second=(?P<rate>\d+)"
    r"(?: left_seconds=(?P<left>\d+))? \("
)


@dataclass(frozen=True, slots=True)
class FetchProgress:
    """`version` as `model:version`. The rate is that of the last seconds, over all who fetch it here."""

    version: str
    come_bytes: int
    size_bytes: int
    bytes_per_second: int

    @property
    def left_seconds(self) -> int | None:
        """The estimated seconds to the end; None while nothing arrives."""
        left = self.size_bytes - self.come_bytes
        return -(-left // self.bytes_per_second) if self.bytes_per_second else None

    def line(self) -> str:
        share = 100 * self.come_bytes // self.size_bytes if self.size_bytes else 100
        left = "" if self.left_seconds is None else f" left_seconds={self.left_seconds}"
        unit, name = next((one for one in _UNITS if self.size_bytes >= one[0]), _UNITS[-1])
        words = (
            f"{share} %, {self.come_bytes / unit:.1f} of {self.size_bytes / unit:.1f} {name}, "
            f"{self.bytes_per_second / 1e6:.1f} MB/s"
        )
        return (
            f"{self.version} come_bytes={self.come_bytes} size_bytes={self.size_bytes} "
            f"bytes_per_second={self.bytes_per_second}{left} ({words})"
        )

    @classmethod
    def of_log(cls, text: str) -> Self | None:
        """Read the last progress line of a log; return None if there is none."""
        for line in reversed(text.splitlines()):
            if found := _LINE.search(line):
                return cls(found["version"], int(found["come"]), int(found["size"]), int(found["rate"]))
        return None


_UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "bytes"))
