"""Removes workers of runs that have ended, or are gone, found by the `op_key` of their deployments."""

from datetime import timedelta

from benchmarks.deploying import ACTOR
from benchmarks.models import BenchmarkCleanup, BenchmarkLease, BenchmarkRun
from benchmarks.selectors import OP_KEY
from benchmarks.states import RUN_ENDED
from clusters.models import Deployment
from clusters.services.deployments import remove_deployment
from clusters.states import GONE
from common.reconcile import Effect, Operation, Recurring


class CleanupReconciler(Recurring[BenchmarkCleanup]):
    name = "clean up"
    effect = Effect.ABSOLUTE
    model = BenchmarkCleanup
    every = timedelta(seconds=10)

    def act(self, row: BenchmarkCleanup, operation: Operation) -> None:
        strays = Deployment.objects.filter(op_key__startswith=OP_KEY).exclude(state__in=GONE)
        for name, op_key in strays.values_list("name", "op_key"):
            run = BenchmarkRun.objects.filter(pk=int(op_key.removeprefix(OP_KEY))).first()
            if run is None or run.state in RUN_ENDED:
                remove_deployment(actor=ACTOR, name=name, reason="Its benchmark run has ended.")
        BenchmarkLease.objects.filter(run__state__in=RUN_ENDED).delete()
