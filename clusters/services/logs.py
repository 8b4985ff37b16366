import time
from collections.abc import Callable

from django.utils.translation import gettext as _

from clusters.backends.base import BackendError, ClusterUnreachable, Misconfigured, UnknownWorker
from clusters.backends.configured import backend_of
from clusters.backends.workloads import RunsWorkloads
from clusters.errors import WorkerMissing
from clusters.models import Cluster, Worker, WorkerLogRequest
from common.actor import Actor
from common.errors import Unavailable
from common.hosts import this_host
from common.reconcile import kernel, silent_hosts
from common.reconcile.pulses import living_hosts

MAX_LINES = 2_000
LOG_LINES = 200
ANSWER_WITHIN_SECONDS = 5.0
LOOK_EVERY_SECONDS = 0.1


def matching_log(read: Callable[[int], str], *, lines: int, text: str) -> str:
    """The last lines that hold the text, of those that can be read. `read` returns so many lines."""
    if not text:
        return read(lines)
    found = [line for line in read(MAX_LINES).splitlines() if text.casefold() in line.casefold()]
    return "\n".join(found[-lines:])


def worker_log(*, actor: Actor, worker: str, lines: int) -> str:
    """The end of what a worker wrote, the restarts before it included; asked of its cluster.

    Raises WorkerMissing, Unavailable.
    """
    visible = Worker.objects.for_actor(actor).select_related("deployment__cluster")
    found = visible.filter(name=worker).first()
    if found is None:
        raise WorkerMissing(_("There is no worker %(worker)s.") % {"worker": worker})
    try:
        return _read(found.deployment.cluster, found.uid, None, lines)
    except UnknownWorker:
        raise WorkerMissing(_("The worker %(worker)s has left no log.") % {"worker": worker}) from None
    except (ClusterUnreachable, Misconfigured) as error:
        raise Unavailable(_("The cluster does not answer: %(error)s") % {"error": error}) from None


def log_of_run(cluster: Cluster, *, workload: str, run: int, lines: int) -> str:
    """The end of what a run of a workload has written, while it runs too; empty: nothing yet, or it is not
    there any more. Who may read it is the caller's to check. Raises Unavailable.
    """
    try:
        return _read(cluster, workload, run, lines)
    except BackendError as error:
        raise Unavailable(_("The cluster does not answer: %(error)s") % {"error": error}) from None


def read_log(cluster: Cluster, name: str, run: int | None, lines: int) -> str:
    """Read the log on its cluster's host. `run`: of a workload; None: it is a worker's.

    Raises as the backend does.
    """
    backend = backend_of(cluster)
    if run is None:
        return backend.logs(name, lines=lines)
    return backend.workloads.log(name, run, lines=lines) if isinstance(backend, RunsWorkloads) else ""


def _read(cluster: Cluster, name: str, run: int | None, lines: int) -> str:
    read = read_log if cluster.host in ("", this_host()) else _read_there
    return read(cluster, name, run, min(max(lines, 1), MAX_LINES))


def _read_there(cluster: Cluster, name: str, run: int | None, lines: int) -> str:
    """Read the log by a row, which a process of the cluster's host answers. Raises as the backend does."""
    if cluster.host not in living_hosts():
        raise ClusterUnreachable(silent_hosts.why(cluster.host))
    row = WorkerLogRequest.objects.create(
        cluster=cluster, worker=name, run=run, lines=lines, lane_host=cluster.host
    )
    try:
        kernel.wake(row)
        until = time.monotonic() + ANSWER_WITHIN_SECONDS
        while row.answered_at is None:
            if time.monotonic() > until:
                raise ClusterUnreachable(
                    f"The host {cluster.host} has not answered within {ANSWER_WITHIN_SECONDS:g} s."
                )
            time.sleep(LOOK_EVERY_SECONDS)
            row.refresh_from_db()
    finally:
        row.delete()
    if row.is_missing:
        raise UnknownWorker(name)
    if row.problem:
        raise ClusterUnreachable(row.problem)
    return row.text
