from datetime import datetime
from typing import Any

from common.reconcile import Outcome, Step
from releases.models import Release
from releases.reconcilers.base import begin_step, move
from releases.states import ReleaseState


class Begin(Step[Release]):
    name = "begin"

    def settle(self, row: Release, seen: Any, now: datetime) -> Outcome:
        return move(row, ReleaseState.RUNNING, note="Started.", also=lambda: begin_step(row, 0))
