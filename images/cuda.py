"""NVIDIA's facts of drivers, toolkits and the code inside a binary."""

import re
from dataclasses import dataclass
from typing import Literal

from images.versions import numbers

LEAST_DRIVERS = {
    (13,): "580",
    (12,): "525.60.13",
    (11,): "450.80.02",
    (10, 2): "440.33",
    (10, 1): "418.39",
    (10,): "410.48",
    (9, 2): "396.26",
    (9, 1): "390.46",
    (9,): "384.81",
}
"""CUDA Toolkit Release Notes, "Minimum Required Driver Version for CUDA Minor Version Compatibility" (Linux):
from 11 on whatever a major release built runs on any driver of that major; before, each minor has its own.
docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html
"""
TOOLKIT_DRIVERS = {
    (11,): "450.51.05",
    (11, 1): "455.23",
    (11, 2): "460.27.03",
    (11, 3): "465.19.01",
    (11, 4): "470.42.01",
    (11, 5): "495.29.05",
    (11, 6): "510.39.01",
    (11, 7): "515.43.04",
    (11, 8): "520.61.05",
    (12,): "525.60.13",
    (12, 1): "530.30.02",
    (12, 2): "535.54.03",
    (12, 3): "545.23.06",
    (12, 4): "550.54.14",
    (12, 5): "555.42.02",
    (12, 6): "560.28.03",
    (12, 8): "570.26",
    (12, 9): "575.51.03",
    (13,): "580.65.06",
    (13, 1): "590.44.01",
}
"""The same notes, "CUDA Toolkit and Corresponding Driver Versions" (Linux x86_64)."""


def least_driver(cuda_version: str) -> str:
    """The oldest driver on which code of this toolkit runs; empty when that is not known."""
    release = _release(cuda_version)
    return LEAST_DRIVERS.get(release) or LEAST_DRIVERS.get(release[:1], "")


def compiling_driver(cuda_version: str) -> str:
    """The oldest driver that compiles PTX of this toolkit; empty when that is not known.

    Minor version compatibility does not hold for PTX: a driver reads the PTX of its own release and of those
    before it ("Application Considerations for Minor Version Compatibility" of the same guide).
    """
    return TOOLKIT_DRIVERS.get(_release(cuda_version), "")


def _release(cuda_version: str) -> tuple[int, ...]:
    """(12, 8) of 12.8.1, (12,) of 12.0.1: as the tables name them."""
    return numbers(".".join(cuda_version.split(".")[:2]))


_CODE = re.compile(
    r"(?:sm_|compute_)?(?P<major>\d{1,2}?)\.?(?P<minor>\d)(?P<only>[af]?)(?P<ptx>\+ptx)?", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class CompiledCode:
    """The target of one entry of an image's list of compiled code."""

    major: int
    minor: int
    only: str = ""
    """`a`: runs on this capability alone; `f`: on its family."""
    has_ptx: bool = False

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}{self.only}{'+PTX' if self.has_ptx else ''}"

    def runs_on(self, capability: str) -> Literal["as it is", "compiled", ""]:
        """CUDA C++ Programming Guide, "Binary Compatibility" and "PTX Compatibility".

        A cubin runs on devices of the same major and the same or a higher minor capability; PTX is compiled
        by the driver for any capability that is not lower; code for 9.0a runs on 9.0 alone, code for 10.0f
        on 10.x from 10.0 on.
        """
        major, _, minor = capability.partition(".")
        device = (int(major), int(minor))
        if self.only == "a":
            return "as it is" if device == (self.major, self.minor) else ""
        if device[0] == self.major and device[1] >= self.minor:
            return "as it is"
        return "compiled" if self.has_ptx and not self.only and device >= (self.major, self.minor) else ""


def code_of(text: str) -> CompiledCode | None:
    """`9.0`, `9.0a` or `9.0+PTX` as TORCH_CUDA_ARCH_LIST has them, `sm_90` or `compute_90` as
    `torch.cuda.get_arch_list()` prints them; None for anything else.
    """
    found = _CODE.fullmatch(text.strip())
    if found is None:
        return None
    has_ptx = bool(found["ptx"]) or text.strip().lower().startswith("compute_")
    return CompiledCode(int(found["major"]), int(found["minor"]), found["only"].lower(), has_ptx)
