"""A drill plays its fault on the machine, follows what comes of it, and leaves the machine as it was."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import QuerySet

from clusters.backends.base import NodeCondition
from clusters.backends.configured import backend_of
from clusters.backends.extras import SupportsConditions
from clusters.backends.node_operations import NodeOperations, OperationUnsupported, UnknownNode
from clusters.services.node_orders import order_for
from common import audit
from common.errors import Invalid
from common.jobs.spec import JobObservation, JobState, owner_of
from common.reconcile import Effect, LeaseLost, Operation, Reconciler, Step, StepOutcome, move, wait
from gpu_health.drills.marks import mark, marked
from gpu_health.drills.orders import drill_job, fault_order, healthy_order
from gpu_health.drills.reports import differences, followed, report
from gpu_health.drills.scenarios import DrillSource, Scenario
from gpu_health.errors import IncidentAlreadyEnded
from gpu_health.incident_facts import ACTOR, BY
from gpu_health.models import Drill, Incident, StoredReading
from gpu_health.reconcilers.seeing import BackendOf, translated_refusals
from gpu_health.services.drill_traces import forget_drill, real_fault
from gpu_health.services.incidents import cancel, end_with_drill
from gpu_health.services.provider_events import accept_events
from gpu_health.services.readings import store_readings
from gpu_health.signals.check_reports import read_report, readings
from gpu_health.states import DRILL_MOVES, ENDED_INCIDENTS, DrillState, IncidentState

LOOK_EVERY = timedelta(seconds=1)
PREPARES_WITHIN = timedelta(seconds=60)
FOUND_WITHIN = timedelta(minutes=5)
"""Rules that count ask for several readings, five seconds apart."""
NOTHING_FOR = timedelta(seconds=30)
"""So long nothing may be found of a fault that the rules ignore."""
OPENED_WITHIN = timedelta(seconds=30)
DRY_WITHIN = timedelta(minutes=2)
ACTS_WITHIN = timedelta(hours=1)
CLEANS_WITHIN = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class DrillOrderResult:
    """The result of an order to the machine. `failure`: why it was not done."""

    is_done: bool = False
    failure: str = ""
    result: Mapping[str, Any] | None = None


class DrillStep(Step[Drill]):
    def __init__(self, backend_of: BackendOf) -> None:
        self._backend_of = backend_of
        self._impossible = ""

    def operations(self, row: Drill) -> NodeOperations:
        with translated_refusals(row):
            return self._backend_of(row.node.cluster).node_operations

    def order(self, row: Drill, operation: Operation, what: str, document: Mapping[str, Any]) -> None:
        """Have the machine play it; one Job for ever, as a crash may come between."""
        spec = self._job(row, what, document)
        operations = self.operations(row)
        try:
            with translated_refusals(row):
                if operations.jobs(row.node.uid).observe(spec.name).state is JobState.GONE:
                    why = f"drill {row.pk}"
                    order = order_for(row, operation, node=row.node, by=BY, reason=why, op_key=spec.op_key)
                    operations.run_job(row.node.uid, spec, order)
        except (OperationUnsupported, UnknownNode) as error:
            self._impossible = str(error)

    def played(self, row: Drill, what: str) -> DrillOrderResult:
        if self._impossible:
            return DrillOrderResult(failure=self._impossible)
        with translated_refusals(row):
            seen = self.operations(row).jobs(row.node.uid).observe(self._job(row, what, {}).name)
        if seen.is_live or seen.state is JobState.GONE:
            return DrillOrderResult()
        if seen.result is None:
            return DrillOrderResult(failure=_why(seen))
        return DrillOrderResult(is_done=True, result=seen.result)

    def set_condition(
        self, row: Drill, operation: Operation, kind: str, wanted: NodeCondition | None
    ) -> None:
        """Raises OperationUnsupported, UnknownNode."""
        operations = self.operations(row)
        if not isinstance(operations, SupportsConditions):
            raise OperationUnsupported("Machines of this cluster have no conditions that others may write.")
        with translated_refusals(row):
            order = order_for(row, operation, node=row.node, by=BY, reason=f"drill {row.pk}")
            operations.set_condition(row.node.uid, kind, wanted, order)

    def _job(self, row: Drill, what: str, document: Mapping[str, Any]) -> Any:
        key, owner = f"{row._meta.label_lower}:{row.pk}:{what}", owner_of(row._meta.label_lower, row.pk)
        return drill_job(row.node, row.pk, document, op_key=key, owner=owner)


def _why(seen: JobObservation) -> str:
    return seen.last_words or seen.why or "The Job left no result."


class PrepareDrill(DrillStep):
    """Healthy GPUs are played until the agent tells of them: what it says of a fault will come, too."""

    name = "prepare"
    effect = Effect.ABSOLUTE

    def act(self, row: Drill, operation: Operation) -> None:
        if row.way == DrillSource.AGENT:
            self.order(row, operation, "prepare", healthy_order(row))

    def observe(self, row: Drill, operation: Operation) -> DrillOrderResult:
        if row.way != DrillSource.AGENT:
            return DrillOrderResult(is_done=True)
        done = self.played(row, "prepare")
        if done.is_done:
            return DrillOrderResult(is_done=StoredReading.objects.filter(drill=row).exists())
        return done

    def settle(self, row: Drill, seen: DrillOrderResult, now: datetime) -> StepOutcome:
        if row.cancelled_by:
            return _ending(DrillState.CANCELLED, f"Cancelled by {row.cancelled_by}.", now)
        if seen.failure:
            return _ending(DrillState.FAILED, f"Nothing can be played there. {seen.failure}", now)
        if seen.is_done:
            return _to(DrillState.PLAYING, now)
        if now - row.state_since > PREPARES_WITHIN:
            why = "The agent of the machine tells nothing of what is played: does it run, with --drill?"
            return _ending(DrillState.FAILED, why, now)
        return wait(LOOK_EVERY, save={"why": "Waiting for the agent of the machine to tell of its GPUs."})


class PlayFault(DrillStep):
    name = "play"
    effect = Effect.ABSOLUTE
    _is_told = False
    _at = 0.0

    def act(self, row: Drill, operation: Operation) -> None:
        if row.cancelled_by:
            return
        scenario = known(row)
        if row.way == DrillSource.AGENT:
            self.order(row, operation, "play", fault_order(row, scenario.part(DrillSource.AGENT)))
        elif row.way == DrillSource.CHECK:
            self.order(
                row, operation, "play", {"order": "check", "gpu": row.gpu, **scenario.part(DrillSource.CHECK)}
            )
        else:
            self._at = operation.at.timestamp()
            try:
                self._is_told = self._tell(row, scenario, operation)
            except (OperationUnsupported, UnknownNode, Invalid) as error:
                self._impossible = str(error)

    def _tell(self, row: Drill, scenario: Scenario, operation: Operation) -> bool:
        """Set the node condition, or send the provider event, that no agent reports."""
        if row.way == DrillSource.PROVIDER:
            document, cluster = event_of(row, scenario), row.node.cluster.name
            accept_events(actor=ACTOR, document=document, machine=row.node.uid, cluster=cluster)
            return True
        wanted = condition_of(row, scenario)
        if row.former_condition is None:
            self._keep_former(row, operation, wanted.type)
        self.set_condition(row, operation, wanted.type, wanted)
        return True

    def _keep_former(self, row: Drill, operation: Operation, kind: str) -> None:
        with translated_refusals(row):
            seen = self.operations(row).look(row.node.uid)
        former = next((asdict(one) for one in seen.conditions if one.type == kind), None)
        rows = Drill.objects.filter(pk=row.pk, fence=operation.fence)
        if not rows.update(former_condition={"condition": former}):
            raise LeaseLost

    def observe(self, row: Drill, operation: Operation) -> DrillOrderResult:
        if row.way in (DrillSource.AGENT, DrillSource.CHECK):
            return self.played(row, "play")
        return DrillOrderResult(is_done=self._is_told, failure=self._impossible, result={"at": self._at})

    def settle(self, row: Drill, seen: DrillOrderResult, now: datetime) -> StepOutcome:
        if row.cancelled_by:
            return _ending(DrillState.CANCELLED, f"Cancelled by {row.cancelled_by}.", now)
        if seen.failure:
            return _ending(DrillState.FAILED, f"It cannot be played there. {seen.failure}", now)
        if not seen.is_done:
            return wait(LOOK_EVERY)
        at = (seen.result or {}).get("at")
        played_at = datetime.fromtimestamp(at, UTC) if isinstance(at, int | float) else now

        def write() -> None:
            if row.way == DrillSource.CHECK and seen.result is not None:
                found = readings(
                    read_report(seen.result), at=now.timestamp(), origin=f"drill/{row.pk}", node=row.node.name
                )
                store_readings(row.node, [marked(one, row.pk) for one in found])

        return _to(DrillState.FOLLOWING, now, save={"played_at": min(played_at, now)}, write=write)


def known(row: Drill) -> Scenario:
    """Raises Invalid."""
    if row.played is None:
        raise Invalid(f"This release has no scenario {row.scenario}.")
    return row.played


def condition_of(row: Drill, scenario: Scenario) -> NodeCondition:
    told = scenario.part(DrillSource.CONDITION)
    message = f"{told.get('message', '')} {mark(row.pk)}".strip()
    return NodeCondition(told["type"], told["status"], told.get("reason", ""), message)


def event_of(row: Drill, scenario: Scenario) -> dict[str, Any]:
    soon = (row.ordered_at + timedelta(minutes=30)).strftime("%a, %d %b %Y %H:%M:%S GMT")
    document = scenario.part(DrillSource.PROVIDER, machine=row.node.uid, drill=str(row.pk), soon=soon)
    for event in document.get("Events", ()):
        event["Description"] = f"{event.get('Description', '')} {mark(row.pk)}".strip()
    return document


class FollowDrill(Step[Drill]):
    """Looks at rows alone: what came of the fault came by itself."""

    name = "follow"

    def observe(self, row: Drill, operation: Operation) -> None:
        return None

    def settle(self, row: Drill, seen: None, now: datetime) -> StepOutcome:
        if row.cancelled_by:
            return _ending(DrillState.CANCELLED, f"Cancelled by {row.cancelled_by}.", now)
        if real := real_fault(row):
            return _ending(DrillState.CANCELLED, f"A real fault goes before: {real}", now)
        since = now - (row.played_at or row.state_since)
        rows = followed(row)
        is_ignored = row.expected.get("outcome") in ("none", "wait")
        if rows.finding is None:
            if is_ignored and since > NOTHING_FOR:
                return _ending(DrillState.PASSED, "Nothing was found, as the rules in force say.", now)
            if since > FOUND_WITHIN:
                return _ending(DrillState.FAILED, f"Nothing was found within {FOUND_WITHIN}.", now)
            return wait(LOOK_EVERY, save={"why": "Waiting for the fault to be found."})
        if differs := differences(row, rows.finding):
            told = "; ".join(f"{one['what']}: {one['found']}, not {one['expected']}" for one in differs)
            return _ending(DrillState.FAILED, f"It was judged otherwise than the rules say: {told}.", now)
        if rows.finding.outcome not in ("act", "propose"):
            why = f"It was found, and the rules in force say: {rows.finding.outcome}."
            return _ending(DrillState.PASSED, why, now)
        if rows.incident is None:
            if since > FOUND_WITHIN + OPENED_WITHIN:
                return _ending(DrillState.FAILED, "It was found, and no incident was opened.", now)
            return wait(LOOK_EVERY, save={"why": "Waiting for the incident."})
        return _of_incident(row, rows.incident, since, now)


def _of_incident(row: Drill, incident: Incident, since: timedelta, now: datetime) -> StepOutcome:
    if not row.acts:
        if incident.hold:
            return _ending(DrillState.PASSED, incident.hold_reason, now)
        if since > FOUND_WITHIN + DRY_WITHIN:
            return _ending(DrillState.FAILED, "The incident goes nowhere: does a worker run?", now)
        return wait(LOOK_EVERY, save={"why": "Waiting for the guards' answer."})
    if incident.state in (IncidentState.WATCHING, IncidentState.CLOSED):
        return _ending(DrillState.PASSED, "The machine is back in service.", now)
    if incident.state == IncidentState.NEEDS_PERSON:
        return _ending(DrillState.PASSED, f"The ladder ends with a person. {incident.reason}", now)
    if incident.hold == "verification":
        return _ending(DrillState.PASSED, incident.hold_reason, now)
    if incident.state == IncidentState.CANCELLED:
        return _ending(DrillState.FAILED, f"The incident was cancelled. {incident.reason}", now)
    if since > ACTS_WITHIN:
        return _ending(DrillState.FAILED, f"The ladder took longer than {ACTS_WITHIN}.", now)
    return wait(LOOK_EVERY, save={"why": incident.hold_reason or incident.reason})


class EndDrill(DrillStep):
    """The fault is withdrawn, and the machine returns: nothing of the drill is left on it."""

    name = "end"
    effect = Effect.ABSOLUTE

    def act(self, row: Drill, operation: Operation) -> None:
        if row.way == DrillSource.AGENT:
            self.order(row, operation, "over", {"order": "over"})
        elif row.way == DrillSource.CONDITION:
            self._withdraw(row, operation)
        incident = self._incident(row)
        if incident is not None and not incident.cancel:
            try:
                if row.outcome == DrillState.CANCELLED:
                    cancel(actor=ACTOR, incident=incident, returns=True, reason=row.why)
                else:
                    end_with_drill(incident)
            except IncidentAlreadyEnded:
                return

    def observe(self, row: Drill, operation: Operation) -> tuple[DrillOrderResult, bool]:
        done = (
            self.played(row, "over")
            if row.way == DrillSource.AGENT
            else DrillOrderResult(True, self._impossible)
        )
        return done, self._incident(row) is None

    def _withdraw(self, row: Drill, operation: Operation) -> None:
        if row.former_condition is None:
            return
        former = row.former_condition["condition"]
        try:
            kind = condition_of(row, known(row)).type
            self.set_condition(row, operation, kind, NodeCondition(**former) if former else None)
        except (OperationUnsupported, UnknownNode) as error:
            self._impossible = str(error)

    def settle(self, row: Drill, seen: tuple[DrillOrderResult, bool], now: datetime) -> StepOutcome:
        withdrawn, is_back = seen
        late = now - row.state_since > CLEANS_WITHIN
        if not ((withdrawn.is_done or withdrawn.failure) and is_back) and not late:
            return wait(LOOK_EVERY)
        outcome, why = DrillState(row.outcome or DrillState.FAILED), row.why
        if late or (withdrawn.failure and row.played_at is not None):
            outcome = DrillState.FAILED
            why = f"{why} Not all could be cleaned up: {withdrawn.failure or 'the incident does not end.'}"

        def write() -> None:
            Drill.objects.filter(pk=row.pk).update(ended_at=now)
            forget_drill(row)

        told = report(row)
        return move(outcome, note=why, save={"why": why, "state_since": now, "ended_at": now, "report": told},
                    write=write, after=None)  # fmt: skip

    @staticmethod
    def _incident(row: Drill) -> Incident | None:
        return Incident.objects.filter(drill=row).exclude(state__in=ENDED_INCIDENTS).first()


def _to(
    state: DrillState, now: datetime, *, save: Mapping[str, Any] | None = None, write: Any = None
) -> StepOutcome:
    return move(state, save={"state_since": now, "why": "", **(save or {})}, write=write)


def _ending(outcome: DrillState, why: str, now: datetime) -> StepOutcome:
    return move(DrillState.ENDING, note=why, save={"state_since": now, "why": why, "outcome": str(outcome)})


class DrillReconciler(Reconciler[Drill]):
    model = Drill
    moves = DRILL_MOVES

    def __init__(self, backend_of: BackendOf = backend_of) -> None:
        self._backend_of = backend_of

    def rows(self) -> QuerySet[Drill]:
        return Drill.objects.select_related("node__cluster")

    def lane_of(self, row: Drill) -> str:
        return row.node.cluster.own_lane

    def host_of(self, row: Drill) -> str:
        return row.node.cluster.host

    def log_fields(self, row: Drill) -> Mapping[str, Any]:
        return {"node": row.node.name, "scenario": row.scenario}

    def next_step(self, row: Drill, now: datetime) -> Step[Drill] | None:
        if not row.is_open:
            return None
        if row.state == DrillState.PREPARING:
            return PrepareDrill(self._backend_of)
        if row.state == DrillState.PLAYING:
            return PlayFault(self._backend_of)
        if row.state == DrillState.FOLLOWING:
            return FollowDrill()
        return EndDrill(self._backend_of)

    def on_move(self, row: Drill, to: str, note: Any) -> None:
        audit.record(
            ACTOR,
            f"gpu_drill.{to}",
            subject=row,
            reason=str(note or ""),
            detail={"node": row.node.name, "scenario": row.scenario},
            team_id=row.node.cluster.team_id,
        )
