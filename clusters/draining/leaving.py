"""Named reads of workers whose machine leaves service."""

from collections.abc import Collection

from clusters.models import Deployment, Drain, Node, Worker
from clusters.states import DeploymentState, WorkerState


def deployments_on(node_id: int) -> list[str]:
    """Names of those with workers on the machine."""
    rows = Deployment.objects.exclude(state=DeploymentState.REMOVED).filter(workers__node=node_id)
    return list(rows.order_by("name").values_list("name", flat=True).distinct())


def nodes_under(deployments: Collection[str]) -> list[int]:
    """Ids of the machines on which workers of these deployments stand."""
    rows = Worker.objects.filter(deployment__name__in=deployments, node__isnull=False)
    return sorted(set(rows.order_by().values_list("node_id", flat=True)))


def stand_on(deployments: Collection[str], node_id: int) -> bool:
    return Worker.objects.filter(deployment__name__in=deployments, node=node_id).exists()


def answer_elsewhere(deployment: str, node_id: int) -> bool:
    """Whether a worker of it is ready that neither stands on the machine nor leaves another one."""
    rows = Worker.objects.filter(deployment__name=deployment, state=WorkerState.READY, leaves_with=None)
    return rows.exclude(node=node_id).exists()


def last_drain(node_id: int) -> Drain | None:
    return Drain.objects.filter(node=node_id).order_by("-pk").first()


def node(node_id: int) -> Node | None:
    return Node.objects.filter(pk=node_id).first()
