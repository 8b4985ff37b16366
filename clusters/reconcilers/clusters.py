"""A cluster's row and its machines' rows say what its backend sees."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from clusters import agent_contacts, selectors
from clusters.agents import AgentContact, silent_since
from clusters.backends.base import BackendError, ClusterBackend, ClusterRightsMissing
from clusters.backends.checks import RIGHT, ClusterCheck, missing_rights
from clusters.backends.configured import backend_of
from clusters.backends.extras import SupportsCleanup, SupportsOwnership, SupportsRightsReview, SupportsSecrets
from clusters.events import ClusterChecksFailed, ClusterRightsLost
from clusters.models import Cluster
from clusters.reconcilers import occupancy
from clusters.reconcilers.cluster_removal import RemoveCluster
from clusters.reconcilers.files_tokens import RenewFilesToken, is_due
from clusters.reconcilers.inventory import ObservedCluster, record_agents, record_machines
from clusters.reconcilers.occupancy import CountPods
from clusters.reconcilers.relay_tokens import RenewRelayToken, is_relay_token_due
from clusters.report_tokens import has_relay
from clusters.shared_machines import shared_machines
from clusters.states import CheckResult
from common import clock, events
from common.live.touch import touch
from common.reconcile import Operation, Reconciler, Step, StepOutcome, proceed, silent_hosts, wait

LOOK_EVERY = timedelta(seconds=10)
LOOK_WHEN_HEARD = timedelta(seconds=30)
"""At a cluster that tells of changes, each of which is looked at at once."""
HEARD_LATELY = timedelta(seconds=20)
"""Whoever was heard so lately need not be asked whether it answers."""
CHECK_EVERY = timedelta(minutes=15)
RIGHTS_EVERY = timedelta(seconds=45)
"""So that a lost right is known within a minute."""
RelayOf = Callable[[Cluster], AgentContact | None]
AgentsOf = Callable[[int], Mapping[int, AgentContact] | None]


class Survey(Step[Cluster]):
    name = "survey"

    def __init__(
        self,
        backend_of: Callable[[Cluster], ClusterBackend],
        agents_of: AgentsOf,
        relay_of: RelayOf,
    ) -> None:
        self.backend_of = backend_of
        self.agents_of = agents_of
        self.relay_of = relay_of

    def observe(self, row: Cluster, operation: Operation) -> ObservedCluster:
        try:
            backend = self.backend_of(row)
            heard = shared_machines(row)
            if heard is not None and clock.now() - heard.heard_at < HEARD_LATELY:
                return ObservedCluster("", heard.sightings, heard.heard_at)
            health = backend.health()
            problem = "" if health.ok else health.detail or "It takes no orders."
            if heard is not None and health.ok:
                return ObservedCluster(problem, heard.sightings, heard.heard_at)
            return ObservedCluster.of(backend.nodes(), problem=problem)
        except BackendError as error:
            return ObservedCluster(str(error), None)

    def settle(self, row: Cluster, seen: ObservedCluster, now: datetime) -> StepOutcome:
        heard, before = self.agents_of(row.pk), row.surveyed_at

        def write() -> None:
            is_news = record_machines(row, seen, now) or seen.problem != row.problem
            if record_agents(row, heard, before=before, now=now) or is_news:
                touch("fleet")

        save: dict[str, Any] = {"surveyed_at": now, "problem": seen.problem, **self._relay(row, now)}
        is_heard = seen.heard_at is not None and not (heard or row.relay_heard_at)
        return wait(LOOK_WHEN_HEARD if is_heard else LOOK_EVERY, save=save, write=write)

    def _relay(self, row: Cluster, now: datetime) -> dict[str, Any]:
        """When its relay was heard, and since when it is silent. While nobody knows: as it was."""
        heard = self.relay_of(row)
        if heard is None:
            gone = {"relay_heard_at": None, "relay_silent_since": None}
            return {} if has_relay(row.kind, row.settings) else gone
        told = {"relay_silent_since": silent_since(heard, row.relay_silent_since, now=now)}
        if heard.age_seconds is not None:
            told["relay_heard_at"] = now - timedelta(seconds=heard.age_seconds)
        return told


class RunChecks(Step[Cluster]):
    """Everything that a cluster must let Slipway do, looked at anew. Never raises for the cluster's sake."""

    name = "checks"

    def __init__(self, backend_of: Callable[[Cluster], ClusterBackend]) -> None:
        self.backend_of = backend_of

    def observe(self, row: Cluster, operation: Operation) -> tuple[ClusterCheck, ...]:
        try:
            backend = self.backend_of(row)
            if isinstance(backend, SupportsOwnership) and (refusals := backend.own()):
                return refusals
            # Checks say why it cannot; until it can, no worker that needs them begins.
            with suppress(BackendError):
                if isinstance(backend, SupportsSecrets):
                    backend.hand_out_secrets()
                if isinstance(backend, SupportsCleanup):
                    backend.tidy(selectors.digests_needed_on(row))
            return backend.checks()
        except BackendError as error:
            return (ClusterCheck("settings", CheckResult.FAILED, str(error)),)

    def settle(self, row: Cluster, seen: tuple[ClusterCheck, ...], now: datetime) -> StepOutcome:
        found = _written(seen)
        is_news = found != row.checks or row.is_check_due

        def write() -> None:
            if _failures(found) - _failures(row.checks):
                events.publish(ClusterChecksFailed(row.pk))
            if missing_rights(found) & _names(row.checks, CheckResult.PASSED):
                events.publish(ClusterRightsLost(row.pk))
            if is_news:
                touch("fleet")

        return proceed(save={"checks": found, "checked_at": now, "rights_seen_at": now}, write=write)


class WatchRights(Step[Cluster]):
    """Runs all checks at once when a cluster takes away a right or gives it back."""

    name = "watch rights"

    def __init__(self, backend_of: Callable[[Cluster], ClusterBackend]) -> None:
        self.backend_of = backend_of

    def observe(self, row: Cluster, operation: Operation) -> list[dict[str, str]] | None:
        """Return the checks of rights; None: they are not known."""
        try:
            backend = self.backend_of(row)
            return _written(backend.right_checks()) if isinstance(backend, SupportsRightsReview) else None
        except ClusterRightsMissing:
            return []
        except BackendError:
            return None

    def settle(self, row: Cluster, seen: list[dict[str, str]] | None, now: datetime) -> StepOutcome:
        before = [one for one in row.checks if one["name"].startswith(RIGHT)]
        is_news = seen is not None and seen != before
        return proceed(save={"rights_seen_at": now, **({"check_asked_at": now} if is_news else {})})


def _written(checks: Iterable[ClusterCheck]) -> list[dict[str, str]]:
    return [asdict(one) | {"result": str(one.result)} for one in checks]


def _names(checks: Iterable[Mapping[str, Any]], result: CheckResult) -> set[str]:
    return {one["name"] for one in checks if one["result"] == result}


def _failures(found: Iterable[Mapping[str, Any]]) -> set[tuple[str, str]]:
    return {(one["name"], one["detail"]) for one in found if one["result"] == CheckResult.FAILED}


class ClusterReconciler(Reconciler[Cluster]):
    model = Cluster

    def __init__(
        self,
        backend_of: Callable[[Cluster], ClusterBackend] = backend_of,
        agents_of: AgentsOf = agent_contacts.agents_of,
        relay_of: RelayOf = agent_contacts.relay_of,
    ) -> None:
        self.backend_of = backend_of
        self.agents_of = agents_of
        self.relay_of = relay_of

    def lane_of(self, row: Cluster) -> str:
        return row.own_lane

    def host_of(self, row: Cluster) -> str:
        return row.host

    def on_silent_host(self, host: str) -> Mapping[str, Any]:
        return {"problem": silent_hosts.why(host)}

    def next_step(self, row: Cluster, now: datetime) -> Step[Cluster] | None:
        if row.removed_at is not None:
            return None
        if row.removal_asked_at is not None:
            return RemoveCluster()
        if is_due(row, now):
            return RenewFilesToken()
        if is_relay_token_due(row, now):
            return RenewRelayToken()
        if row.checked_at is None or row.is_check_due or row.checked_at <= now - CHECK_EVERY:
            return RunChecks(self.backend_of)
        if (row.rights_seen_at or row.checked_at) <= now - RIGHTS_EVERY:
            return WatchRights(self.backend_of)
        if occupancy.is_due(row, now):
            return CountPods(self.backend_of)
        return Survey(self.backend_of, self.agents_of, self.relay_of)

    def on_stuck(self, row: Cluster, reason: str) -> Mapping[str, Any]:
        return {"problem": reason}
