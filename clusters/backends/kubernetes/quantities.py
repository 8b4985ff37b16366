"""Kubernetes' notation for amounts: `100m`, `1Gi`, `1e3`."""

import re
from decimal import Decimal

_QUANTITY = re.compile(r"([+-]?\d+(?:\.\d*)?|[+-]?\.\d+)([eE][+-]?\d+|[numkMGTPE]|[KMGTPE]i)?")
_FACTORS = {
    "": Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)},
}


def amount(quantity: str | float) -> Decimal:
    """Raises ValueError for what is no quantity."""
    found = _QUANTITY.fullmatch(str(quantity).strip())
    if found is None:
        raise ValueError(f"{quantity!r} is no quantity as Kubernetes writes it (100m, 1Gi)")
    number, suffix = Decimal(found[1]), found[2] or ""
    return number * (Decimal(f"1{suffix}") if suffix[:1] in "eE" and len(suffix) > 1 else _FACTORS[suffix])


def whole(quantity: str | float) -> int:
    """Rounded down: what is really there to be given away."""
    return int(amount(quantity) // 1)
