from datetime import datetime
from typing import Any

from common.reconcile import Outcome, Step, move
from releases import stored
from releases.models import Release
from releases.reconcilers.base import begin_step
from releases.states import ReleaseState


class Begin(Step[Release]):
    name = "begin"

    def settle(self, row: Release, seen: Any, now: datetime) -> Outcome:
        return move(ReleaseState.RUNNING, note=stored.STARTED, write=lambda: begin_step(row, 0))
