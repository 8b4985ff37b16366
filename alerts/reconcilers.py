from datetime import datetime, timedelta
from typing import Any

from alerts.models import AlertEvaluation
from alerts.services.evaluation import CheckResults, apply_results, make_checks
from common.reconcile import Operation, Recurring, StepOutcome, wait


class AlertReconciler(Recurring[AlertEvaluation]):
    """Makes all checks; what they find becomes alerts in the transaction that settles the step."""

    name = "evaluate alerts"
    model = AlertEvaluation
    every = timedelta(seconds=15)

    def observe(self, row: AlertEvaluation, operation: Operation) -> CheckResults:
        return make_checks()

    def settle(self, row: AlertEvaluation, seen: Any, now: datetime) -> StepOutcome:
        return wait(
            self.every,
            save={"problems": dict(seen.problems), "evaluated_at": now},
            write=lambda: apply_results(seen),
        )
