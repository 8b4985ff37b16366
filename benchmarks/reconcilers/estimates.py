"""AIConfigurator is asked before the first run where an order wants it. Without it the roofline stands."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _

from benchmarks import estimate_orders
from benchmarks.models import Benchmark, BenchmarkCell
from benchmarks.spec import spec_of
from benchmarks.states import PriorKind
from common.jobs.spec import JobObservation, JobSpec
from common.jobs.steps import AwaitJob, StartJob
from common.reconcile import StepOutcome, proceed


def is_due(row: Benchmark) -> bool:
    return row.estimates is None and spec_of(row.spec).prior == PriorKind.AICONFIGURATOR


class StartEstimates(StartJob[Benchmark]):
    name = "start estimates"

    def spec(self, row: Benchmark, op_key: str) -> JobSpec:
        return estimate_orders.job_of(row, op_key)

    def refused(self, row: Benchmark, why: str, now: datetime) -> StepOutcome:
        return proceed(save={"estimates": {"failed": why}})


class AwaitEstimates(AwaitJob[Benchmark]):
    """Take its answers as the priors of the configurations that they are about."""

    name = "await estimates"
    max_launches = 3

    def underway(self, row: Benchmark, seen: JobObservation) -> Mapping[str, Any]:
        done = seen.progress or {}
        asking = _("Asking AIConfigurator: %(done)s of %(total)s.")
        return {"reason": asking % {"done": done.get("done", 0), "total": done.get("total", "?")}}

    def succeeded(self, row: Benchmark, seen: JobObservation, now: datetime) -> StepOutcome:
        result = dict(seen.result or {})
        cells = estimate_orders.estimated(row, result)
        told = {
            "by": result.get("by", ""),
            "cells": len(cells),
            "refused": result.get("refused", {}),
            "failed": result.get("failed", ""),
        }

        def write() -> None:
            BenchmarkCell.objects.bulk_update(cells, ["prior"], batch_size=500)

        return proceed(save={"estimates": told, "reason": ""}, write=write)

    def failed(self, row: Benchmark, seen: JobObservation, now: datetime) -> StepOutcome:
        why = self.why_given_up(row, seen, "AIConfigurator")
        return proceed(save={"estimates": {"failed": why}, "reason": ""})
