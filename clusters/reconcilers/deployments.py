"""A deployment's workers are what was wished for, and its row says how they are."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db.models import QuerySet

from clusters import selectors
from clusters.backends.base import (
    BackendError,
    ClusterBackend,
    ClusterUnreachable,
    FilesPending,
    Misconfigured,
    RetryLater,
    StaleDeploymentFence,
)
from clusters.backends.extras import Watchable
from clusters.deployment_specs import spec_of
from clusters.events import DeploymentFailing
from clusters.models import Deployment, Worker
from clusters.reconcilers.deployment_columns import columns, has_its_workers, judged, writing
from clusters.reconcilers.deployment_steps import (
    TROUBLED,
    DeploymentStep,
    DeploymentTools,
    ObservedDeployment,
)
from clusters.reconcilers.report_tokens import RenewReportToken, end_report_tokens, is_due
from clusters.services.lost_rights import why_unanswered
from clusters.shared_machines import SharedWorkers
from clusters.states import GONE, DeploymentState
from clusters.verdicts import WorkerVerdict, held_back
from common import events
from common.fence import Fence
from common.live.touch import touch
from common.reconcile import Effect, LeaseLost, Operation, Reconciler, Step, StepOutcome, proceed, rest, wait

CHANGING = timedelta(seconds=0.5)
STEADY = timedelta(seconds=2.5)
GATEWAY_LETS_GO = timedelta(seconds=1.5)
"""Between the word that there are no endpoints any more and the signal that ends the workers."""


class WatchDeployment(DeploymentStep):
    """Look how the workers are; if they are not those that were wished for, or one has ended, the wish has to
    be told again."""

    name = "watch"

    def heard(
        self, row: Deployment, backend: ClusterBackend, known: Sequence[Worker]
    ) -> SharedWorkers | None:
        """While its workers are heard to be as they were, and well, nobody asks. Versions that a release may
        compare are looked at: its clock runs by that."""
        if row.state != DeploymentState.READY or not isinstance(backend, Watchable):
            return None
        found = self.tools.heard(row.cluster, row.name)
        if found is None or len(found.workers) != row.wanted_replicas:
            return None
        present = {(one.uid, one.state, one.restarts) for one in known}
        if {(one.id, one.state, one.restarts) for one in found.workers} != present:
            return None
        others = selectors.deployments_of(row.service).exclude(pk=row.pk)
        return None if others.exists() else found

    def settle(self, row: Deployment, seen: ObservedDeployment, now: datetime) -> StepOutcome:
        if seen.problem:
            return self._unseen(row, seen)
        noted = self.noted(row, seen, now)
        found = judged(row, seen, noted, now)
        save = columns(row, seen, noted, found, now)
        is_fulfilled = has_its_workers(row, seen)
        if not is_fulfilled or seen.logs:
            # Workers that ended start again by themselves, but only `ApplyDeployment` brings back lost files.
            save["applied_generation"] = 0
        is_steady = is_fulfilled and found.state == DeploymentState.READY and not seen.logs
        return wait(
            STEADY if is_steady else CHANGING, save=save, write=writing(row, seen, noted, found, save)
        )


class ApplyDeployment(DeploymentStep):
    """Tell the backend the wish, again and again until it shows exactly the workers that were wished for."""

    name = "apply"
    effect = Effect.ABSOLUTE
    _refusal = ""
    _coming: RetryLater | None = None
    _files_reason: str | None = None
    _unanswered = ""
    """Why it may not have been told: then it is told again, whatever is seen."""

    def intent(self, row: Deployment) -> Mapping[str, Any]:
        return {"version": row.version_label, "replicas": row.replicas, "generation": row.generation}

    def act(self, row: Deployment, operation: Operation) -> Mapping[str, Any]:
        try:
            backend, spec = self.tools.backend_of(row.cluster), spec_of(row)
            self._files_reason = backend.files_reason(spec)
            backend.apply(spec, fence=Fence(row.pk, operation.fence))
        except StaleDeploymentFence:
            raise LeaseLost from None
        except (ClusterUnreachable, Misconfigured) as error:
            self._unanswered = why_unanswered(row.cluster, error)
        except RetryLater as error:
            self._coming = error
        except BackendError as error:
            self._refusal = str(error)
        return {"refusal": self._refusal}

    def settle(self, row: Deployment, seen: ObservedDeployment, now: datetime) -> StepOutcome:
        if seen.problem:
            return self._unseen(row, seen)
        noted = self.noted(row, seen, now)
        found = judged(row, seen, noted, now)
        if (
            (self._refusal or self._coming or self._unanswered)
            and not row.replicas
            and found.state == DeploymentState.READY
        ):
            # It wants no workers yet, and so lacks none: what it waits for are its files.
            found = WorkerVerdict(DeploymentState.STARTING, "")
        if self._refusal:
            found = held_back(found, self._refusal)
        if self._coming or self._unanswered:
            found = WorkerVerdict(found.state, str(self._coming or self._unanswered))
        save = columns(row, seen, noted, found, now, coming=self._coming)
        if self._files_reason is not None:
            save["files_reason"] = self._files_reason
        write = writing(row, seen, noted, found, save, coming=self._coming)
        if self._refusal or self._unanswered or isinstance(self._coming, FilesPending):
            return wait(TROUBLED, save=save, write=write)
        if self._coming or not has_its_workers(row, seen):
            return wait(CHANGING, save=save, write=write)
        return proceed(save={**save, "applied_generation": row.generation}, write=write, after=CHANGING)


class DrainWait(Step[Deployment]):
    """Give the gateway the time to stop sending requests."""

    name = "wait for drain"

    def settle(self, row: Deployment, seen: Any, now: datetime) -> StepOutcome:
        return wait(max(timedelta(0), removal_due(row) - now))


class RemoveDeployment(DeploymentStep):
    name = "remove"
    effect = Effect.ABSOLUTE
    _unanswered = ""

    def act(self, row: Deployment, operation: Operation) -> Mapping[str, Any]:
        try:
            self.tools.backend_of(row.cluster).remove(row.name, fence=Fence(row.pk, operation.fence))
        except StaleDeploymentFence:
            raise LeaseLost from None
        except (ClusterUnreachable, Misconfigured) as error:
            # That no worker is seen is no reason then: other things of it may be there.
            self._unanswered = why_unanswered(row.cluster, error)
        return {}

    def settle(self, row: Deployment, seen: ObservedDeployment, now: datetime) -> StepOutcome:
        if seen.problem:
            return wait(TROUBLED)
        noted = self.noted(row, seen, now)
        still = WorkerVerdict(DeploymentState.REMOVING, row.reason)
        if seen.workers or self._unanswered:
            save = columns(row, seen, noted, still, now)
            return wait(
                TROUBLED if self._unanswered else CHANGING,
                save=save,
                write=writing(row, seen, noted, still, save),
            )
        gone = WorkerVerdict(DeploymentState.REMOVED, row.reason)
        save = columns(row, seen, noted, gone, now) | {"sealed_report_token": ""}
        write = writing(row, seen, noted, gone, save)

        def end() -> None:
            write()
            end_report_tokens(row)

        return rest(save=save, write=end)


class DeploymentReconciler(Reconciler[Deployment]):
    model = Deployment

    def __init__(self, tools: DeploymentTools | None = None) -> None:
        self.tools = tools or DeploymentTools()

    def rows(self) -> QuerySet[Deployment]:
        return Deployment.objects.select_related("cluster", "image")

    def lane_of(self, row: Deployment) -> str:
        return row.cluster.own_lane

    def host_of(self, row: Deployment) -> str:
        return row.cluster.host

    def next_step(self, row: Deployment, now: datetime) -> Step[Deployment] | None:
        if row.state == DeploymentState.REMOVED:
            return None
        if row.state == DeploymentState.REMOVING:
            return DrainWait() if now < removal_due(row) else RemoveDeployment(self.tools)
        if is_due(row, now):
            return RenewReportToken()
        if row.applied_generation != row.generation:
            return ApplyDeployment(self.tools)
        return WatchDeployment(self.tools)

    def on_stuck(self, row: Deployment, reason: str) -> Mapping[str, Any]:
        events.publish(DeploymentFailing(row.pk))
        touch("fleet")
        return {} if row.state in GONE else {"state": DeploymentState.FAILING, "reason": reason}


def removal_due(row: Deployment) -> datetime:
    assert row.removal_asked_at is not None  # noqa: S101  (set with the state)
    return row.removal_asked_at + GATEWAY_LETS_GO
