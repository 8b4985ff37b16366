from datetime import timedelta
from itertools import islice

from common.reconcile import Effect, Operation, Recurring, StepOutcome, wait
from gpu_health.models import JudgingAnew
from gpu_health.services.judging import judge_anew, outdated

AT_ONCE = 20
"""Machines: a step is short, whatever the number of findings."""


class JudgingReconciler(Recurring[JudgingAnew]):
    """Judges what is open by the rules in force: those of a new release, too, which nobody has told of."""

    name = "judge anew"
    model = JudgingAnew
    effect = Effect.ABSOLUTE
    every = timedelta(seconds=15)

    def act(self, row: JudgingAnew, operation: Operation) -> None:
        for node in islice(outdated(), AT_ONCE):
            judge_anew(node)

    def observe(self, row: JudgingAnew, operation: Operation) -> bool:
        """Whether more are waiting."""
        return next(outdated(), None) is not None

    def settle(self, row: JudgingAnew, seen: bool, now: object) -> StepOutcome:
        return wait(timedelta(0) if seen else self.every)
