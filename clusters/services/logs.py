from django.utils.translation import gettext as _

from clusters.backends.base import ClusterUnreachable, Misconfigured, UnknownWorker
from clusters.backends.configured import backend_of
from clusters.errors import WorkerMissing
from clusters.models import Worker
from common.actor import Actor
from common.errors import Unavailable

MAX_LINES = 2_000


def worker_log(*, actor: Actor, worker: str, lines: int) -> str:
    """The end of what a worker wrote, the restarts before it included; asked of its cluster.

    Raises WorkerMissing, Unavailable.
    """
    visible = Worker.objects.for_actor(actor).select_related("deployment__cluster")
    found = visible.filter(name=worker).first()
    if found is None:
        raise WorkerMissing(_("There is no worker %(worker)s.") % {"worker": worker})
    try:
        return backend_of(found.deployment.cluster).logs(found.uid, lines=min(max(lines, 1), MAX_LINES))
    except UnknownWorker:
        raise WorkerMissing(_("The worker %(worker)s has left no log.") % {"worker": worker}) from None
    except (ClusterUnreachable, Misconfigured) as error:
        raise Unavailable(_("The cluster does not answer: %(error)s") % {"error": error}) from None
