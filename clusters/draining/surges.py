"""Named reads of the workers that a deployment has beyond its wish while some of its own leave a machine."""

from collections.abc import Sequence
from dataclasses import dataclass

from clusters.models import Deployment, Drain, Surge
from clusters.states import DRAINS, WorkerState


@dataclass(frozen=True, slots=True)
class ActiveSurge:
    extra: int = 0
    """Workers beyond the wish."""
    leaving: tuple[str, ...] | None = None
    """As in `DeploymentSpec`."""
    words: str = ""
    """Why there are more; empty: there are not."""


NO_SURGE = ActiveSurge()


def surge_of(row: Deployment) -> ActiveSurge:
    """Return the extra workers that drains demand of a deployment; one that wants no workers gets none. One
    query.
    """
    known = list(Surge.objects.filter(deployment=row).select_related("drain__node"))
    if not known:
        return NO_SURGE
    counting = [one for one in known if one.drain.state in DRAINS]
    extra = sum(one.extra for one in counting) if row.replicas else 0
    leaving = tuple(name for one in counting for name in one.handed_over)
    if not extra:
        return ActiveSurge(leaving=leaving)
    machines = ", ".join(sorted({one.drain.node.name for one in counting if one.extra}))
    more = "1 worker more" if extra == 1 else f"{extra} workers more"
    return ActiveSurge(
        extra,
        leaving,
        f"It has {more} than {row.replicas} for now: {machines} is being drained, and its workers there are "
        "replaced first.",
    )


def ready_on_staying_machines(deployment_id: int) -> int:
    """Workers that no drain takes away."""
    drained = Drain.objects.filter(state__in=DRAINS).values("node")
    rows = Deployment.objects.get(pk=deployment_id).workers.filter(
        state=WorkerState.READY, leaves_with=None, node__is_cordoned=False
    )
    return rows.exclude(node__in=drained).count()


def asked_for(deployment_id: int) -> int:
    """Workers beyond the wish that all drains under way want of it."""
    rows = Surge.objects.filter(deployment=deployment_id, drain__state__in=DRAINS)
    return sum(one.extra for one in rows)


def surges(drain: Drain) -> Sequence[Surge]:
    return list(Surge.objects.filter(drain=drain).select_related("deployment").order_by("pk"))
