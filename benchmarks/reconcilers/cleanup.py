"""Removes workers and load generators of runs that have ended, or are gone, found by the `op_key` of their
deployments and the owner's label of their Jobs."""

import re
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from benchmarks.deploying import ACTOR, job_place
from benchmarks.models import Benchmark, BenchmarkCleanup, BenchmarkLease, BenchmarkRun
from benchmarks.selectors import OP_KEY
from benchmarks.states import RUN_ENDED
from clusters.backends.base import BackendError, ClusterBackend
from clusters.backends.configured import backend_of
from clusters.models import Cluster, Deployment
from clusters.services.deployments import remove_deployment
from clusters.states import GONE
from common.errors import Unavailable
from common.jobs.spec import owner_of
from common.reconcile import Effect, Operation, Recurring

LOOK_FOR_JOBS_EVERY = timedelta(seconds=30)
_JOB_OWNER = re.compile(rf"{owner_of(BenchmarkRun._meta.label_lower, '')}([0-9]+)")


class CleanupReconciler(Recurring[BenchmarkCleanup]):
    name = "clean up"
    effect = Effect.ABSOLUTE
    model = BenchmarkCleanup
    every = timedelta(seconds=10)

    def __init__(self, *, backend_of: Callable[[Cluster], ClusterBackend] = backend_of) -> None:
        self._backend_of = backend_of
        self._looked_at = datetime.min.replace(tzinfo=UTC)

    def act(self, row: BenchmarkCleanup, operation: Operation) -> None:
        strays = Deployment.objects.filter(op_key__startswith=OP_KEY).exclude(state__in=GONE)
        for name, op_key in strays.values_list("name", "op_key"):
            if _is_over(int(op_key.removeprefix(OP_KEY))):
                remove_deployment(actor=ACTOR, name=name, reason="Its benchmark run has ended.")
        BenchmarkLease.objects.filter(run__state__in=RUN_ENDED).delete()
        if operation.at - self._looked_at >= LOOK_FOR_JOBS_EVERY:
            self._looked_at = operation.at
            self._remove_jobs()

    def _remove_jobs(self) -> None:
        used = Benchmark.objects.filter(cluster__removed_at=None).values("cluster")
        for cluster in Cluster.objects.present().filter(pk__in=used):
            # One that does not answer is asked again at the next look.
            with suppress(BackendError, Unavailable):
                place = job_place(cluster, self._backend_of)
                for name, owner in place.runner.owners().items() if place else ():
                    found = _JOB_OWNER.fullmatch(owner)
                    if place and found and _is_over(int(found[1])):
                        place.runner.stop(name)
                        place.runner.remove(name)


def _is_over(run: int) -> bool:
    return not BenchmarkRun.objects.filter(pk=run).exclude(state__in=RUN_ENDED).exists()
