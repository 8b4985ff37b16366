"""What a GPU of a model should reach: figures of the vendor's data sheets, and the share of them that passes.

A copy within the memory reaches 80 to 92 % of the sheet's bandwidth, a copy to or from the host about 80 %
of the link's. What passes lies well below, and above what half the lanes or a throttled clock would give.
Bus bandwidths of all-reduce are those below which AzureHPC's node health checks fail a machine.
"""

import re
from dataclasses import dataclass

MEMORY_SHARE = 0.70
LINK_SHARE = 0.60
COMPUTE_SHARE = 0.40


@dataclass(frozen=True, slots=True)
class Expected:
    """Gigabytes (1e9) a second of memory and of one direction of the PCIe link, dense 16-bit TFLOPS, and
    all-reduce's bus bandwidth between the GPUs of one machine (0: nobody says)."""

    memory_gbs: float
    link_gbs: float
    tflops: float
    all_reduce_gbs: float = 0.0

    @property
    def least_memory_gbs(self) -> float:
        return self.memory_gbs * MEMORY_SHARE

    @property
    def least_link_gbs(self) -> float:
        return self.link_gbs * LINK_SHARE

    @property
    def least_tflops(self) -> float:
        return self.tflops * COMPUTE_SHARE


GEN3, GEN4, GEN5 = 15.8, 31.5, 63.0
"""Of 16 lanes, one direction."""

_MODELS: tuple[tuple[str, Expected], ...] = (
    (r"\bGB?200\b|\bB200\b", Expected(8_000, GEN5, 2_250)),
    (r"\bH200 NVL\b", Expected(4_800, GEN5, 835)),
    (r"\b(G?H200|H200)\b", Expected(4_800, GEN5, 989, 460)),
    (r"\bH20\b", Expected(4_000, GEN5, 148)),
    (r"\bH100 PCIe\b", Expected(2_000, GEN5, 756)),
    (r"\bH100 NVL\b", Expected(3_900, GEN5, 835)),
    (r"\bH[18]00\b", Expected(3_350, GEN5, 989, 460)),
    (r"\bA[18]00-PCIE-40GB\b", Expected(1_555, GEN4, 312)),
    (r"\bA[18]00 80GB PCIe\b", Expected(1_935, GEN4, 312)),
    (r"\bA[18]00-SXM4-40GB\b", Expected(1_555, GEN4, 312, 228)),
    (r"\bA[18]00\b", Expected(2_039, GEN4, 312, 228)),
    (r"\bL40S\b", Expected(864, GEN4, 362)),
    (r"\bL40\b", Expected(864, GEN4, 181)),
    (r"\bL4\b", Expected(300, GEN4, 121)),
    (r"\bA40\b", Expected(696, GEN4, 150)),
    (r"\bA30\b", Expected(933, GEN4, 165)),
    (r"\bA10\b", Expected(600, GEN4, 125)),
    (r"\bV100\b", Expected(900, GEN3, 112)),
    (r"\bT4\b", Expected(320, GEN3, 65)),
)


def expected_of(model: str) -> Expected | None:
    """Return what is known by the driver's name, such as `NVIDIA H100 80GB HBM3`; None: nothing."""
    return next((told for pattern, told in _MODELS if re.search(pattern, model)), None)
