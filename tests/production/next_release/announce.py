from datetime import datetime
from typing import Any, Literal

from common.reconcile import StepOutcome
from releases.models import Release
from releases.plans.step import StepSpec
from releases.reconcilers.base import Executor


class Announce(StepSpec):
    label = "Announce"
    about = "Tell people."

    kind: Literal["announce"] = "announce"

    def summary(self) -> str:
        return "announce"

    def executor(self) -> "AnnounceExecutor":
        return AnnounceExecutor(self)


class AnnounceExecutor(Executor[Announce]):
    name = "announce"

    def settle(self, row: Release, seen: Any, now: datetime) -> StepOutcome:
        return self.go_on(row)
