"""Facts of freezes."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FreezeChanged:
    """A freeze was made, changed or ended."""

    freeze_id: int
