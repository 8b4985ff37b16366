import time

from django.utils.translation import gettext as _

from clusters.backends.base import ClusterUnreachable, Misconfigured, UnknownWorker
from clusters.backends.configured import backend_of
from clusters.errors import WorkerMissing
from clusters.models import Cluster, Worker, WorkerLogRequest
from common.actor import Actor
from common.errors import Unavailable
from common.hosts import this_host
from common.reconcile import kernel, silent_hosts
from common.reconcile.pulses import living_hosts

MAX_LINES = 2_000
ANSWER_WITHIN_SECONDS = 5.0
LOOK_EVERY_SECONDS = 0.1


def matching_log(*, actor: Actor, worker: str, lines: int, text: str) -> str:
    """The last lines that hold the text, of those that can be read. Raises WorkerMissing, Unavailable."""
    if not text:
        return worker_log(actor=actor, worker=worker, lines=lines)
    log = worker_log(actor=actor, worker=worker, lines=MAX_LINES)
    found = [line for line in log.splitlines() if text.casefold() in line.casefold()]
    return "\n".join(found[-lines:])


def worker_log(*, actor: Actor, worker: str, lines: int) -> str:
    """The end of what a worker wrote, the restarts before it included; asked of its cluster.

    Raises WorkerMissing, Unavailable.
    """
    visible = Worker.objects.for_actor(actor).select_related("deployment__cluster")
    found = visible.filter(name=worker).first()
    if found is None:
        raise WorkerMissing(_("There is no worker %(worker)s.") % {"worker": worker})
    cluster, lines = found.deployment.cluster, min(max(lines, 1), MAX_LINES)
    read = _read_here if cluster.host in ("", this_host()) else _read_there
    try:
        return read(cluster, found.uid, lines)
    except UnknownWorker:
        raise WorkerMissing(_("The worker %(worker)s has left no log.") % {"worker": worker}) from None
    except (ClusterUnreachable, Misconfigured) as error:
        raise Unavailable(_("The cluster does not answer: %(error)s") % {"error": error}) from None


def _read_here(cluster: Cluster, worker: str, lines: int) -> str:
    return backend_of(cluster).logs(worker, lines=lines)


def _read_there(cluster: Cluster, worker: str, lines: int) -> str:
    """Read the log by a row, which a process of the cluster's host answers. Raises as the backend does."""
    if cluster.host not in living_hosts():
        raise ClusterUnreachable(silent_hosts.why(cluster.host))
    row = WorkerLogRequest.objects.create(cluster=cluster, worker=worker, lines=lines, lane_host=cluster.host)
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
        raise UnknownWorker(worker)
    if row.problem:
        raise ClusterUnreachable(row.problem)
    return row.text
