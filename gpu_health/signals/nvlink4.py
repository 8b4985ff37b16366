"""What NVIDIA's WORKFLOW_NVLINK_ERR says of the seven registers that an Xid 74 prints, for Hopper and before.

Of the Xid catalog of 2025-10-29, https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html. The
first, third, fourth and fifth register count; a bit that the workflow does not list is a fault.
"""

from collections.abc import Mapping, Sequence

IGNORE = "ignore"
WATCH = "watch"
"""A threshold of corrected errors: operation continues."""
SECONDARY = "secondary"
"""It comes of another error, which says what to do; alone, support is asked."""
FAULT = "fault"

_BITS: Mapping[int, Mapping[str, Sequence[int]]] = {
    0: {IGNORE: (0, 23, 30), SECONDARY: (1, 20, 21, 22)},
    3: {SECONDARY: (16, 17)},
    4: {WATCH: (20, 23, 26, 29)},
}
"""By the index of a register."""
_VALID = (0, 2, 3, 4)


def bucket(registers: Sequence[int]) -> str:
    """Return the worst bucket of several errors at once."""
    found: set[str] = set()
    for index in _VALID:
        left = registers[index] if index < len(registers) else 0
        for name, bits in _BITS.get(index, {}).items():
            mask = sum(1 << bit for bit in bits)
            found |= {name} if left & mask else set()
            left &= ~mask
        found |= {FAULT} if left else set()
    return next((name for name in (FAULT, SECONDARY, WATCH, IGNORE) if name in found), FAULT)
