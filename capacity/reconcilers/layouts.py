"""Steps of a layout: drain the card, reconfigure it, verify, and give the machine back."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from accounts.states import Right
from capacity.models import Allocation, CapacityStop, CardLayout, Workload
from capacity.reconcilers.card_moves import MARGIN
from capacity.services.workloads import ask_to_give_way
from capacity.states import LAYOUT_MOVES, CardSharing, LayoutState
from clusters.backends.base import BackendError, ClusterBackend
from clusters.backends.configured import backend_of
from clusters.backends.devices import ClaimsDevices, DeviceClaims
from clusters.backends.kinds import abilities_of
from clusters.backends.node_operations import MIG_CONFIG, MIG_STATE, OperationUnsupported
from clusters.draining.options import DrainOptions
from clusters.errors import NodeBusy, OperationNotAllowed
from clusters.models import Cluster, Drain, Node, Occupancy
from clusters.services.drains import drain_node
from clusters.services.node_orders import order_for
from clusters.services.nodes import uncordon_node
from clusters.states import UNDER_WAY, DrainState, NodeState
from common import audit
from common.actor import Actor
from common.errors import Unavailable
from common.live.touch import touch
from common.reconcile import Effect, Operation, Reconciler, Step, StepOutcome, move, wait

ACTOR = Actor.system("capacity")
LOOK_EVERY = timedelta(seconds=2)
CONFIGURED_WITHIN = timedelta(minutes=15)
"""MIG manager may restart the machine."""
BackendOf = Callable[[Cluster], ClusterBackend]
S = LayoutState


@dataclass(frozen=True, slots=True)
class LayoutLook:
    is_there: bool
    refusal: str = ""


class LayoutStep(Step[CardLayout]):
    """A step of a layout; whatever refuses it ends the layout, and says why."""

    effect = Effect.ABSOLUTE
    goes_to: LayoutState
    limit: timedelta

    def __init__(self, backend_of: BackendOf) -> None:
        self._backend_of = backend_of
        self._refusal = ""

    def intent(self, row: CardLayout) -> Mapping[str, Any]:
        return {"machine": row.machine, "card": row.card, "config": row.config}

    def settle(self, row: CardLayout, seen: LayoutLook, now: datetime) -> StepOutcome:
        if seen.refusal:
            return _ended(S.FAILED, now, seen.refusal)
        if seen.is_there and self.goes_to == S.APPLIED:
            return _ended(S.APPLIED, now)
        if seen.is_there:
            return move(self.goes_to, save={"state_since": now})
        if now - row.state_since > self.limit:
            late = _("It took longer than %(minutes)d minutes.") % {
                "minutes": self.limit.total_seconds() // 60
            }
            return _ended(S.FAILED, now, f"{late} {self.advice(row)}".strip())
        return wait(LOOK_EVERY)

    def advice(self, row: CardLayout) -> str:
        """Say where to look when the step takes too long; empty: nowhere."""
        return ""

    def stopped(self) -> str:
        return _("The kill switch was thrown.") if CapacityStop.now().is_on else ""


def _ended(to: LayoutState, now: datetime, problem: str = "") -> StepOutcome:
    return move(to, save={"state_since": now, "ended_at": now, "problem": problem}, after=None)


def node_of(row: CardLayout) -> Node | None:
    return Node.objects.filter(cluster=row.pool.cluster_id, name=row.machine).exclude(
        state=NodeState.GONE
    ).select_related("cluster").first()  # fmt: skip


class DrainCard(LayoutStep):
    """Workloads that are processes of a host give way; a machine that is seen is drained of pods on GPUs."""

    name = "drain-card"
    limit = timedelta(hours=1)

    @property
    def goes_to(self) -> LayoutState:  # type: ignore[override]
        return S.APPLYING

    def act(self, row: CardLayout, operation: Operation) -> None:
        if CapacityStop.now().is_on:
            return
        for workload in self._processes(row):
            ask_to_give_way(workload, since=row.created_at, now=operation.at)
        if row.is_simulated:
            return
        node = node_of(row)
        if node is None:
            self._refusal = _("The cluster has no machine %(name)s any more.") % {"name": row.machine}
            return
        why = _("Card layout %(config)s") % {"config": row.config}
        try:
            drain_node(
                actor=ACTOR, node=node, reason=why, options=DrainOptions(gpu_pods_only=True), op_key=_key(row)
            )
        except NodeBusy:
            return
        except OperationNotAllowed as error:
            self._refusal = str(error)

    def observe(self, row: CardLayout, operation: Operation) -> LayoutLook:
        if why := self._refusal or self.stopped():
            return LayoutLook(False, why)
        holders = self._processes(row)
        kept = next((one for one in holders if one.refused_at and one.refused_at >= row.created_at), None)
        if holders or row.is_simulated:
            return LayoutLook(not holders, f"{kept}: {kept.problem}" if kept else "")
        drain = Drain.objects.filter(op_key=_key(row)).first()
        if drain is None or drain.state in UNDER_WAY:
            return LayoutLook(False)
        if drain.state == DrainState.DRAINED:
            return LayoutLook(True)
        return LayoutLook(False, drain.problem or str(drain.get_state_display()))

    def _processes(self, row: CardLayout) -> list[Workload]:
        """Return the workloads on its cards that no drain reaches; those of Kubernetes are pods."""
        if not abilities_of(row.pool.cluster.kind).runs_on_host:
            return []
        held = Allocation.objects.filter(cluster=row.pool.cluster_id, machine=row.machine)
        if row.card is not None:
            held = held.filter(card=row.card)
        rows = held.select_related("workload__pool__cluster")
        return [one.workload for one in rows if one.workload is not None]


class ApplyLayout(LayoutStep):
    """MIG manager or MPS divides the cards of a machine of a cluster; declared ones stay as they are."""

    name = "apply-layout"
    limit = CONFIGURED_WITHIN

    @property
    def goes_to(self) -> LayoutState:  # type: ignore[override]
        return S.RETURNING

    def act(self, row: CardLayout, operation: Operation) -> None:
        node = None if row.is_simulated or CapacityStop.now().is_on else node_of(row)
        if node is None:
            return
        order = order_for(row, operation, node=node, by=ACTOR.name, reason=str(row))
        operations = self._backend_of(node.cluster).node_operations
        try:
            if row.sharing == CardSharing.MPS:
                operations.set_mps_shares(node.uid, len(row.instances), order)
            else:
                operations.set_mig_config(node.uid, row.config, order)
        except OperationUnsupported as error:
            self._refusal = str(error)
        except BackendError as error:
            raise Unavailable(str(error)) from None

    def observe(self, row: CardLayout, operation: Operation) -> LayoutLook:
        if why := self._refusal or self.stopped():
            return LayoutLook(False, why)
        if row.is_simulated:
            return LayoutLook(True)
        node = node_of(row)
        if node is None:
            return LayoutLook(
                False, _("The cluster has no machine %(name)s any more.") % {"name": row.machine}
            )
        operations = self._backend_of(node.cluster).node_operations
        try:
            if row.sharing == CardSharing.MPS:
                return LayoutLook(operations.mps_shares(node.uid) == len(row.instances))
            labels = operations.look(node.uid).labels
        except BackendError as error:
            raise Unavailable(str(error)) from None
        if labels.get(MIG_CONFIG) != row.config:
            other = _("Somebody else set the layout %(config)s meanwhile.")
            return LayoutLook(False, other % {"config": labels.get(MIG_CONFIG, "-")})
        failed = _("MIG manager could not apply %(config)s: see its log. %(machine)s stays cordoned.")
        is_failed = labels.get(MIG_STATE) == "failed"
        return LayoutLook(
            labels.get(MIG_STATE) == "success",
            failed % {"config": row.config, "machine": row.machine} if is_failed else "",
        )

    def advice(self, row: CardLayout) -> str:
        if row.sharing != CardSharing.MPS:
            return ""
        plugin = _(
            "See whether the device plugin has the configuration %(config)s. %(machine)s stays cordoned."
        )
        return plugin % {"config": row.config, "machine": row.machine}


class ReturnMachine(LayoutStep):
    """Uncordon the machine, unless somebody had cordoned it before."""

    name = "return-machine"
    limit = MARGIN

    @property
    def goes_to(self) -> LayoutState:  # type: ignore[override]
        return S.APPLIED

    def act(self, row: CardLayout, operation: Operation) -> None:
        node = None if row.is_simulated or row.was_cordoned else node_of(row)
        if node is not None and node.is_cordoned and not node.operation:
            try:
                uncordon_node(actor=ACTOR, node=node, reason=str(row))
            except (NodeBusy, OperationNotAllowed):
                return

    def observe(self, row: CardLayout, operation: Operation) -> LayoutLook:
        node = None if row.is_simulated or row.was_cordoned else node_of(row)
        return LayoutLook(node is None or not node.is_cordoned)


class WriteTemplates(LayoutStep):
    """Templates of claims are written, or removed where a layout is undone; the driver does the rest."""

    name = "write-templates"
    limit = MARGIN

    @property
    def goes_to(self) -> LayoutState:  # type: ignore[override]
        return S.RETURNING

    def act(self, row: CardLayout, operation: Operation) -> None:
        if CapacityStop.now().is_on:
            return
        devices = self._devices(row)
        uuid = _uuid_of(row)
        try:
            for one in row.before:
                devices.remove_template(one["template"])
            for one in row.instances:
                devices.put_template(one["template"], one["profile"], uuid=uuid)
        except OperationUnsupported as error:
            self._refusal = str(error)
        except BackendError as error:
            raise Unavailable(str(error)) from None

    def observe(self, row: CardLayout, operation: Operation) -> LayoutLook:
        if why := self._refusal or self.stopped():
            return LayoutLook(False, why)
        devices = self._devices(row)
        try:
            wanted = all(devices.has_template(one["template"]) for one in row.instances)
            gone = not any(devices.has_template(one["template"]) for one in row.before)
        except BackendError as error:
            raise Unavailable(str(error)) from None
        return LayoutLook(wanted and gone)

    def _devices(self, row: CardLayout) -> DeviceClaims:
        backend = self._backend_of(row.pool.cluster)
        if not isinstance(backend, ClaimsDevices):
            raise Unavailable(_("Clusters of this kind have no claims."))
        return backend.devices


def _uuid_of(row: CardLayout) -> str:
    """Return the card that its pods must be on; empty: any."""
    if row.card is None:
        return ""
    seen = Occupancy.objects.get(cluster=row.pool.cluster_id).devices or {}
    return next((one["uuid"] for one in seen.get(row.machine, ()) if one["index"] == row.card), "")


STEPS: dict[LayoutState, type[LayoutStep]] = {
    S.DRAINING: DrainCard,
    S.APPLYING: ApplyLayout,
    S.RETURNING: ReturnMachine,
}


def _key(row: CardLayout) -> str:
    return f"capacity.cardlayout:{row.pk}"


class CardLayoutReconciler(Reconciler[CardLayout]):
    model = CardLayout
    moves = LAYOUT_MOVES
    right = Right.CAPACITY_APPLY

    def __init__(self, backend_of: BackendOf = backend_of) -> None:
        self._backend_of = backend_of

    def rows(self) -> QuerySet[CardLayout]:
        return CardLayout.objects.select_related("pool__cluster", "pool__team")

    def lane_of(self, row: CardLayout) -> str:
        return "" if row.is_simulated else f"cluster:{row.pool.cluster.name}"

    def next_step(self, row: CardLayout, now: datetime) -> Step[CardLayout] | None:
        step = STEPS.get(LayoutState(row.state))
        if step is ApplyLayout and row.is_by_claims:
            step = WriteTemplates
        return step(self._backend_of) if step is not None else None

    def on_move(self, row: CardLayout, to: str, note: Any) -> None:
        detail = {"from": row.state, "to": to}
        audit.record(ACTOR, "card_layout.move", subject=row, team_id=row.pool.team_id, detail=detail)
        touch("changes", "capacity")
