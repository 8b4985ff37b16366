"""The base of all steps of a drain."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from clusters.backends.base import (
    BackendError,
    ClusterBackend,
    ClusterUnreachable,
    Misconfigured,
    StaleDeploymentFence,
)
from clusters.backends.node_operations import CordonedByOther, NodeOperations
from clusters.events import WorkersChanged
from clusters.models import Cluster, Deployment, Drain, Surge, Worker
from clusters.services.lost_rights import why_unanswered
from clusters.states import DrainState
from common import events
from common.errors import Unavailable
from common.reconcile import Effect, LeaseLost, Step, StepOutcome, kernel, move

LOOK_EVERY = timedelta(seconds=1)

BackendOf = Callable[[Cluster], ClusterBackend]


class DrainStep(Step[Drain]):
    effect = Effect.ABSOLUTE

    def __init__(self, backend_of: BackendOf) -> None:
        self.backend_of = backend_of
        self.refusal = ""

    def operations(self, row: Drain) -> NodeOperations:
        return self.backend_of(row.node.cluster).node_operations

    @contextmanager
    def asking(self, row: Drain) -> Iterator[None]:
        """Keep what the drain's cluster will never do as `refusal`."""
        try:
            yield
        except StaleDeploymentFence:
            raise LeaseLost from None
        except (ClusterUnreachable, Misconfigured) as error:
            raise Unavailable(why_unanswered(row.node.cluster, error)) from None
        except CordonedByOther:
            raise
        except BackendError as error:
            self.refusal = str(error)


def failed(row: Drain, why: str, now: datetime, *, save: Mapping[str, Any] | None = None) -> StepOutcome:
    """The machine stays cordoned; the workers that are still there get requests again."""
    columns = {**(save or {}), **ended(now), "problem": why}
    return move(DrainState.FAILED, note=why, save=columns, write=given_back(row, now), after=None)


def ended(now: datetime) -> Mapping[str, Any]:
    return {"ended_at": now, "state_since": now}


def given_back(row: Drain, now: datetime) -> Callable[[], None]:
    """Who has not left is sent requests again."""

    def write() -> None:
        workers = Worker.objects.filter(leaves_with=row.pk)
        ids = list(workers.values_list("deployment_id", flat=True).distinct())
        workers.update(leaves_with=None)
        redirect(ids, now)
        end_surges(row)

    return write


def end_surges(row: Drain) -> None:
    """End the drain's surges: deployments lose the extra workers, and no worker is first in line to end.

    Writers in mid-step have outdated values: their write must fail.
    """
    for one in Surge.objects.filter(drain=row).select_related("deployment"):
        kernel.interrupt(one.deployment, where={"removal_asked_at__isnull": True}, applied_generation=0)


def redirect(deployments: Sequence[int], now: datetime) -> None:
    Deployment.objects.filter(pk__in=deployments).update(redirected_at=now)
    for pk in deployments:
        events.publish(WorkersChanged(pk))
