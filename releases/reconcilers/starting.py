from datetime import datetime
from typing import Any

from django.utils.translation import gettext_lazy as _

from common.reconcile import Outcome, Step, move
from releases.messages import Kind
from releases.models import Release
from releases.reconcilers.base import begin_step
from releases.states import ReleaseState

STARTED = Kind("release.started", _("Started."))


class Begin(Step[Release]):
    name = "begin"

    def settle(self, row: Release, seen: Any, now: datetime) -> Outcome:
        return move(ReleaseState.RUNNING, note=STARTED(), write=lambda: begin_step(row, 0))
