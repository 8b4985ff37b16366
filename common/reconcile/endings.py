"""What the moves of all that has a reason and an end have in common."""

from collections.abc import Callable, Collection
from datetime import datetime
from typing import Any

from common.reconcile import StepOutcome, move


def moved(
    still_open: Collection[str],
    to: str,
    now: datetime,
    *,
    reason: str = "",
    write: Callable[[], None] | None = None,
    **columns: Any,
) -> StepOutcome:
    """A move with its reason on the row, and its moment unless the row is `still_open` in that state."""
    ended = {} if to in still_open else {"ended_at": now}
    return move(to, note=reason, save={"reason": reason, **ended, **columns}, write=write)
