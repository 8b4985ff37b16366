"""Silent data corruption: one product, computed again and again, must have the same value each time.

Compared by value: of what faulty GPUs computed wrongly only about 1 % was NaN or infinite. The first product
is held against the processor's, in double precision, within the bound of rounding, in rows that each run
chooses anew.
"""

import contextlib
import hashlib
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import SystemRandom
from typing import Any

import torch

from serving.checks.device import DeviceUnderTest
from serving.checks.report import CheckOutcome, DeviceCheck

SEED = 20_240_131
SIDE = {"cuda": 4_096, "cpu": 256}
REFERENCE_ROWS = 16
ODD_ROWS = 8
LEAST_REPEATS = 2
SMALLEST_HALF = 2**-24
"""Below this half precision has no more digits to give."""
UNIT = "wrong values"
Multiply = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True, slots=True)
class Precision:
    dtype: torch.dtype
    unit_roundoff: float
    """Of one rounding to this type."""

    @property
    def name(self) -> str:
        return str(self.dtype).removeprefix("torch.")


PRECISIONS = (
    Precision(torch.float32, 2**-24),
    Precision(torch.float16, 2**-11),
    Precision(torch.bfloat16, 2**-8),
)
ACCUMULATED = 2**-24
"""Sums of products of all three types are kept in single precision."""


def check(
    target: DeviceUnderTest, seconds: float, multiply: Multiply = torch.matmul
) -> tuple[DeviceCheck, str]:
    """And a fingerprint of the products: GPUs of one model must have the same."""
    fingerprint = hashlib.sha256()
    trial = Trial()
    with _exact_sums():
        for precision in PRECISIONS:
            _repeat(target, precision, seconds / len(PRECISIONS), multiply, trial, fingerprint)
    if trial.wrong:
        words = f"{trial.wrong} of {trial.products} products are wrong. {trial.first}"
    else:
        side = SIDE[target.kind]
        words = f"{trial.products} products of {side:,} x {side:,}, each as it should be."
    outcome = CheckOutcome.FAILED if trial.wrong else CheckOutcome.PASSED
    found = target.check("matrix_products", outcome, words, measured=trial.wrong, expected=0, unit=UNIT)
    return found, fingerprint.hexdigest()


@dataclass
class Trial:
    """Outcome of the products so far; `first` says what was wrong with the first wrong one."""

    products: int = 0
    wrong: int = 0
    first: str = ""

    def fault(self, words: str) -> None:
        self.wrong += 1
        self.first = self.first or words


@contextlib.contextmanager
def _exact_sums() -> Iterator[None]:
    """Sums in single precision, and no short cut by fewer bits, whatever is usual."""
    names = (
        "allow_tf32",
        "allow_fp16_reduced_precision_reduction",
        "allow_bf16_reduced_precision_reduction",
    )
    switches = torch.backends.cuda.matmul
    before = {name: getattr(switches, name) for name in names}
    try:
        for name in names:
            setattr(switches, name, False)
        yield
    finally:
        for name, value in before.items():
            setattr(switches, name, value)


def _repeat(
    target: DeviceUnderTest,
    precision: Precision,
    seconds: float,
    multiply: Multiply,
    trial: Trial,
    fingerprint: Any,
) -> None:
    side = SIDE[target.kind]
    generator = torch.Generator().manual_seed(SEED)
    given = [torch.rand((side, side), generator=generator).sub_(0.5).to(precision.dtype) for _ in range(2)]
    left, right = (one.to(target.device) for one in given)
    first = multiply(left, right)
    target.finish()
    trial.products += 1
    if off := _off_reference(given[0], given[1], first, precision):
        trial.fault(f"In {precision.name} {off}")
    fingerprint.update(first.cpu().view(torch.uint8).numpy().tobytes())
    repeats, ends = 0, time.monotonic() + seconds
    while time.monotonic() < ends or repeats < LEAST_REPEATS:
        product = multiply(left, right)
        repeats += 1
        trial.products += 1
        differs = _bits(product) != _bits(first)
        if count := int(differs.sum()):
            row, column = differs.nonzero()[0].tolist()
            trial.fault(
                f"Repeat {repeats} in {precision.name} differs from the first in {count:,} values, "
                f"first in row {row}, column {column}: {float(product[row, column])!r} instead of "
                f"{float(first[row, column])!r}."
            )


def _bits(values: torch.Tensor) -> torch.Tensor:
    """NaN equals itself that way."""
    return values.view(torch.int32 if values.element_size() == 4 else torch.int16)


def _rows(left: torch.Tensor, right: torch.Tensor, product: torch.Tensor) -> torch.Tensor:
    """Return the rows to compare with the processor's: some drawn anew, and those whose sums under random
    signs lie furthest off (Freivalds), so that an error that is always in the same place is looked at.
    """
    side = left.shape[0]
    drawn = SystemRandom().sample(range(side), min(REFERENCE_ROWS, side))
    signs = torch.tensor([1.0 - 2 * bit for bit in _random_bits(side)], dtype=torch.float64)
    off = (product.cpu().double() @ signs - left.double() @ (right.double() @ signs)).abs()
    odd = off.nan_to_num(nan=math.inf, posinf=math.inf).topk(min(ODD_ROWS, side)).indices.tolist()
    return torch.tensor(sorted({*drawn, *odd}))


def _random_bits(count: int) -> list[int]:
    bits = SystemRandom().getrandbits(count)
    return [bits >> place & 1 for place in range(count)]


def _off_reference(
    left: torch.Tensor, right: torch.Tensor, product: torch.Tensor, precision: Precision
) -> str:
    """Describe what is further from the exact value than rounding explains (Higham, 3.5); blank: nothing."""
    side = left.shape[0]
    rows = _rows(left, right, product)
    exact = left[rows].double() @ right.double()
    size = left[rows].double().abs() @ right.double().abs()
    bound = side * ACCUMULATED * size + 2 * precision.unit_roundoff * exact.abs() + SMALLEST_HALF
    off = (product[rows.to(product.device)].cpu().double() - exact).abs()
    bad = ~(off <= bound)
    if not bad.any():
        return ""
    at, column = bad.nonzero()[0].tolist()
    row = int(rows[at])
    return (
        f"{int(bad.sum()):,} values lie further from the processor's than rounding explains, first in row "
        f"{row}, column {column}: {float(product[row, column])!r} instead of {float(exact[at, column])!r}."
    )
