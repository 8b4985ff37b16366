from datetime import datetime
from typing import Any

from django.utils.translation import gettext_lazy as _

from common.reconcile import Step, StepOutcome, move
from releases.messages import MessageTemplate
from releases.models import Release
from releases.reconcilers.base import begin_step
from releases.states import ReleaseState

STARTED = MessageTemplate("release.started", _("Started."))


class BeginRelease(Step[Release]):
    name = "begin"

    def settle(self, row: Release, seen: Any, now: datetime) -> StepOutcome:
        return move(ReleaseState.RUNNING, note=STARTED(), write=lambda: begin_step(row, 0))
