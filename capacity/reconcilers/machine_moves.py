"""Steps of plans that move whole machines between services: drain, relabel, start workers there."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from django.utils.translation import gettext as _

from capacity.machines import SERVICE_LABEL, ServiceMachine, service_machines
from capacity.model_files import cached_services, remember_files
from capacity.models import CapacityPlan, CapacityStop
from capacity.reconcilers.worker_moves import ACTOR, START_LIMIT, AcquireWorkers, ReleaseWorkers, ScaleLook
from capacity.services.machines import hand_over
from clusters.backends.base import BackendError, ClusterBackend
from clusters.backends.extras import BringsFiles
from clusters.backends.node_operations import OperationUnsupported
from clusters.deployment_specs import spec_of
from clusters.draining.options import DrainOptions
from clusters.errors import DrainEnded, NodeBusy, OperationNotAllowed
from clusters.models import Cluster, Deployment, Drain
from clusters.services.drains import cancel_drain, drain_node
from clusters.services.node_orders import label_node
from clusters.services.nodes import uncordon_node
from clusters.states import UNDER_WAY, DrainState
from common.errors import Unavailable
from common.reconcile import Operation

DRAINED_WITHIN = START_LIMIT - timedelta(minutes=1)
"""A drain that is late says which pods are left, and why, before the plan is late."""
BROUGHT_WITHIN = timedelta(minutes=3)
"""For which machines are not taken while files come to them; then the files come with the workers."""
BackendOf = Callable[[Cluster], ClusterBackend]


def _given(row: CapacityPlan) -> list[str]:
    return [machine for change in row.changes for machine in change["gives"]]


def _holders(row: CapacityPlan) -> dict[str, str]:
    """Return by machine the service that has it once the plan is done; empty: nobody."""
    coming = {machine: change["service"] for change in row.changes for machine in change["gets"]}
    return {**dict.fromkeys(_given(row), ""), **coming}


def _key(row: CapacityPlan, machine: str) -> str:
    return f"capacity.capacityplan:{row.pk}:{machine}"


def _why_not(row: CapacityPlan, machines: dict[str, ServiceMachine]) -> str:
    """Say which machine has another holder than the plan was made for; empty: none has."""
    leaving = {machine: change["service"] for change in row.changes for machine in change["gives"]}
    for name in _holders(row):
        machine = machines.get(name)
        if machine is None:
            return _("The cluster has no machine %(name)s any more.") % {"name": name}
        if machine.holder not in (leaving.get(name, ""), _holders(row)[name]):
            other = _("%(machine)s belongs to %(service)s by now.")
            return other % {"machine": name, "service": machine.holder}
    return ""


class ReleaseMachines(ReleaseWorkers):
    """Drain the machines that services give, while their numbers of workers go down."""

    name = "release-machines"

    def __init__(self, backend_of: BackendOf) -> None:
        super().__init__()
        self._backend_of = backend_of

    def act(self, row: CapacityPlan, operation: Operation) -> None:
        machines = {machine.name: machine for machine in service_machines(row.pool)}
        self._refusal = _why_not(row, machines)
        if self._refusal or CapacityStop.now().is_on:
            return
        passed = operation.at - row.state_since
        if passed < BROUGHT_WITHIN and not self._are_files_there(row, machines, operation):
            return
        for name in _given(row):
            within = int((DRAINED_WITHIN - min(passed, BROUGHT_WITHIN)).total_seconds())
            options = DrainOptions(gpu_pods_only=True, replace_seconds=0, within_seconds=within)
            try:
                drain_node(
                    actor=ACTOR, node=machines[name].node, reason=str(row), options=options,
                    op_key=_key(row, name),
                )  # fmt: skip
            except NodeBusy:
                continue
            except OperationNotAllowed as error:
                self._refusal = str(error)
        super().act(row, operation)

    def _are_files_there(
        self, row: CapacityPlan, machines: Mapping[str, ServiceMachine], operation: Operation
    ) -> bool:
        """Bring files and image to machines while those who give them still serve; once drains have begun it
        is too late for that."""
        keys = [_key(row, name) for name in _given(row)]
        if Drain.objects.filter(op_key__in=keys).exists():
            return True
        backend = self._backend_of(row.pool.cluster)
        if not isinstance(backend, BringsFiles):
            return True
        is_there = True
        for change in row.changes:
            taken = {machines[name].node for name in change["gets"] if name in _given(row)}
            found = Deployment.objects.select_related("version", "image", "cluster").filter(
                name=change["deployment"]
            ).first()  # fmt: skip
            if found is None or not taken:
                continue
            cached = cached_services(taken, {change["service"]: found.name})
            lacking = [node for node in taken if change["service"] not in cached.get(node.pk, ())]
            try:
                come = not lacking or backend.bring_files(spec_of(found), [node.name for node in lacking])
            except BackendError:
                come = False
            if come and lacking:
                remember_files([(node.pk, found.version_id) for node in lacking], operation.at)
            is_there = is_there and come
        return is_there

    def observe(self, row: CapacityPlan, operation: Operation) -> ScaleLook:
        seen = super().observe(row, operation)
        if seen.is_stopped:
            self._cancel(row)
            return seen
        keys = [_key(row, name) for name in _given(row)]
        drains = list(Drain.objects.filter(op_key__in=keys))
        done = [one for one in drains if one.state == DrainState.DRAINED]
        failed = [one for one in drains if one.state not in (*UNDER_WAY, DrainState.DRAINED)]
        why = seen.refusal or (f"{failed[0].node.name}: {_why(failed[0])}" if failed else "")
        return ScaleLook(seen.is_stopped, seen.is_there and len(done) == len(keys), why)

    def _cancel(self, row: CapacityPlan) -> None:
        """Drains that have not ended stop, and their machines return."""
        keys = [_key(row, name) for name in _given(row)]
        for drain in Drain.objects.filter(op_key__in=keys, state__in=UNDER_WAY):
            try:
                cancel_drain(actor=ACTOR, drain=drain, reason=_("The kill switch was thrown."))
            except DrainEnded:
                continue

    def released(self, row: CapacityPlan, now: datetime) -> None:
        hand_over(row.pool, row.changes, now)


def _why(drain: Drain) -> str:
    return drain.problem or str(drain.get_state_display())


class AcquireMachines(AcquireWorkers):
    """Label the machines for the services that get them, uncordon them, and start workers there."""

    name = "acquire-machines"

    def __init__(self, backend_of: BackendOf) -> None:
        super().__init__()
        self._backend_of = backend_of

    def act(self, row: CapacityPlan, operation: Operation) -> None:
        if CapacityStop.now().is_on:
            return
        machines = {machine.name: machine for machine in service_machines(row.pool)}
        for name, service in _holders(row).items():
            if (machine := machines.get(name)) is None:
                self._refusal = _("The cluster has no machine %(name)s any more.") % {"name": name}
                return
            if machine.node.labels.get(SERVICE_LABEL, "") != service:
                self._label(row, operation, machine, service)
            elif machine.node.is_cordoned and not machine.node.operation and name in _given(row):
                try:
                    uncordon_node(actor=ACTOR, node=machine.node, reason=str(row))
                except (NodeBusy, OperationNotAllowed):
                    continue
        super().act(row, operation)

    def _label(self, row: CapacityPlan, operation: Operation, machine: ServiceMachine, service: str) -> None:
        try:
            label_node(
                row, operation, node=machine.node, label=SERVICE_LABEL, value=service, by=ACTOR.name,
                reason=str(row), operations=self._backend_of(row.pool.cluster).node_operations,
            )  # fmt: skip
        except OperationUnsupported as error:
            self._refusal = str(error)
        except BackendError as error:
            raise Unavailable(str(error)) from None

    def observe(self, row: CapacityPlan, operation: Operation) -> ScaleLook:
        seen = super().observe(row, operation)
        nodes = {machine.name: machine.node for machine in service_machines(row.pool)}
        is_there = all(
            name in nodes
            and nodes[name].labels.get(SERVICE_LABEL, "") == service
            and not (nodes[name].is_cordoned and name in _given(row))
            for name, service in _holders(row).items()
        )
        return ScaleLook(seen.is_stopped, seen.is_there and is_there, seen.refusal)
