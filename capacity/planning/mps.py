"""MPS shares: a percentage of a card's threads and a part of its memory for each of the models that share it.

A thread percentage is an upper bound, and memory beyond the limit is refused to whoever asks for it: shares
that add up to no more than the card leave each what it needs (https://docs.nvidia.com/deploy/mps/).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil

from capacity.planning.cards import SliceNeed
from capacity.planning.errors import PlanningError

MOST_CLIENTS = 48
"""Processes that one card takes, from Volta on."""
MOST_EQUAL = 32
"""Equal shares of a card: the daemon tells them apart by its default percentage, to a tenth."""
PROFILE = "mps"
MEMORY_MIB = {
    "T4": 15_360,
    "L4": 23_034,
    "A10": 23_028,
    "L40S": 46_068,
    "A100-40GB": 40_960,
    "A100-80GB": 81_920,
    "H100-80GB": 81_559,
    "H200-141GB": 143_771,
}
"""Memory of a card, as its driver names it."""


@dataclass(frozen=True)
class MpsShare:
    """A share of a card: percentage of its threads and memory at most, and for whom."""

    name: str
    threads: int
    memory_mib: int


def memory_of(product: str) -> int:
    """Return the MiB of a product such as `NVIDIA L4`."""
    words = product.upper().replace("-", " ").split()
    for name, memory in MEMORY_MIB.items():
        family, _, size = name.partition("-")
        if family in words and (not size or size in words or family == "H200"):
            return memory
    known = ", ".join(sorted(MEMORY_MIB))
    raise PlanningError("machine", f"The memory of {product or 'this GPU'} is not known; known: {known}.")


def shares(memory_mib: int, needs: Iterable[SliceNeed]) -> tuple[MpsShare, ...]:
    """Return a share for each need on one card; what is left of both is spread in proportion."""
    wanted = list(needs)
    if len(wanted) > MOST_CLIENTS:
        raise PlanningError("needs", f"One card has at most {MOST_CLIENTS} clients of MPS.")
    threads = [max(1, ceil(round(100 * need.share, 6))) for need in wanted]
    memory = sum(need.memory_mib for need in wanted)
    if sum(threads) > 100 or memory > memory_mib:
        raise PlanningError(
            "needs",
            f"One card of {memory_mib} MiB has no place for {memory} MiB and {sum(threads)} % of its time.",
        )
    return tuple(
        MpsShare(need.name, 100 * percent // sum(threads), need.memory_mib * memory_mib // memory)
        for need, percent in zip(wanted, threads, strict=True)
    )


def equal_shares(memory_mib: int, needs: Iterable[SliceNeed]) -> tuple[MpsShare, ...]:
    """Return as many equal shares as hold each of the needs, as NVIDIA's device plugin divides all cards of a
    machine alike."""
    wanted = list(needs)
    largest = max(wanted, key=lambda need: max(need.share, need.memory_mib / memory_mib))
    part = max(largest.share, largest.memory_mib / memory_mib, 1 / MOST_EQUAL)
    count = int(round(1 / part, 6))
    if count < 2:
        raise PlanningError(
            "needs",
            f"{largest.name} needs more than half of a card of {memory_mib} MiB: no equal share holds it.",
        )
    return (MpsShare("", 100 // count, memory_mib // count),) * count
