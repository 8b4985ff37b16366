from typing import ClassVar

from django.db import models

from accounts.querysets import TeamOrShared
from clusters.models.clusters import Cluster
from clusters.states import (
    GpuSharing,
    GpuState,
    MachineGroup,
    NodeOperation,
    NodeState,
)
from common import clock
from common.reconcile import Reconciled


class NodeRows(TeamOrShared["Node"]):
    team_path = "cluster__team"


class Node(Reconciled):
    """A machine, as the cluster's backend last saw it. Written when something changed.

    It is the same row for as long as the cluster gives it the same `uid`: never deleted and made anew.
    At rest, unless something is to be done to it: one operation at a time, through this row.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="nodes")
    uid = models.CharField(max_length=253)
    name = models.CharField(max_length=253)
    address = models.CharField(max_length=253, blank=True)
    boot_id = models.CharField(max_length=100, blank=True)
    """Another one after each start of the machine; blank: not known."""
    provider_id = models.CharField(max_length=400, blank=True)
    cpu_count = models.PositiveIntegerField(default=0)
    memory_bytes = models.PositiveBigIntegerField(default=0)
    labels = models.JSONField(default=dict, blank=True)
    taints = models.JSONField(default=list, blank=True)
    """`{key, effect, value}` each."""
    conditions = models.JSONField(default=list, blank=True)
    """`{type, status, reason, message}` each."""
    is_cordoned = models.BooleanField(default=False)
    """No new worker is placed on it."""
    cordoned_by = models.CharField(max_length=200, blank=True)
    """Blank: somebody past Slipway."""
    cordon_reason = models.TextField(blank=True)
    cordoned_at = models.DateTimeField(null=True)
    operation = models.CharField(
        max_length=20, choices=NodeOperation.choices, default=NodeOperation.NONE, blank=True, editable=False
    )
    """What was ordered and is not done yet; nothing else is done to the machine meanwhile."""
    operation_by = models.CharField(max_length=200, blank=True, editable=False)
    operation_reason = models.TextField(blank=True, editable=False)
    operation_at = models.DateTimeField(null=True, editable=False)
    """When it was ordered, or the last one was."""
    operation_problem = models.TextField(blank=True, editable=False)
    """Why the last one was not done; empty when it was."""
    orders = models.PositiveBigIntegerField(default=0, editable=False)
    """How many orders it was given: the place of each in their line (`services.node_orders`)."""
    allocatable = models.JSONField(default=dict, blank=True)
    """GPUs that pods may have, by the name under which its cluster counts them."""
    capacity = models.JSONField(default=dict, blank=True)
    """GPUs, slices and shares that it has, healthy or not, by the same names."""
    group = models.CharField(max_length=10, choices=MachineGroup.choices, default=MachineGroup.ONLINE)
    state = models.CharField(max_length=20, choices=NodeState.choices, default=NodeState.READY)
    state_since = models.DateTimeField(default=clock.now)
    problem = models.TextField(blank=True)
    """Why it, or a part of it, could not be read; empty when all was."""
    seen_at = models.DateTimeField()
    """To the minute: kept current while the machine is seen, without a write per look."""
    seen_as = models.CharField(max_length=32, blank=True, editable=False)
    """Of all that was read of it, a digest: while it is the same, nothing needs to be written."""
    agent_silent_since = models.DateTimeField(null=True, editable=False)
    """When its agent was last heard, or first missed; None: it is heard, or the machine has none."""
    created_at = models.DateTimeField(default=clock.now, editable=False)

    objects = NodeRows.as_manager()

    class Meta(Reconciled.Meta):
        constraints: ClassVar = [models.UniqueConstraint(fields=["cluster", "uid"], name="node_once")]
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return f"{self.cluster.name}/{self.name}"


class Occupancy(models.Model):
    """The allocation of a cluster's GPUs, as last seen."""

    cluster = models.OneToOneField(Cluster, on_delete=models.CASCADE, related_name="occupancy")
    used = models.JSONField(default=dict)
    """By machine's name and name of the resource: `{ours, others}`, GPUs that pods hold."""
    pods = models.JSONField(default=dict)
    """By machine's name: `{ours, others}`, how many pods stand there."""
    sizes = models.JSONField(default=dict)
    """By name of the resource: how many pods ask for so many of it, by their size."""
    pending = models.JSONField(default=list)
    """`{namespace, name, deployment, gpus, why}` of pods that wait for a machine, those with GPUs first."""
    devices = models.JSONField(null=True)
    """By machine's name: cards that pods claim (DRA), as `reconcilers.occupancy` writes them."""
    pending_count = models.PositiveIntegerField(default=0)
    seen_at = models.DateTimeField(null=True)
    """None: never yet."""
    problem = models.TextField(blank=True)
    """What could not be seen, and why."""

    class Meta:
        ordering: ClassVar = ["pk"]

    def __str__(self) -> str:
        return f"occupancy of {self.cluster.name}"


class Gpu(models.Model):
    """A card, wherever in its cluster it is plugged in: the row goes with it to another machine."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="+")
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="gpus")
    """Where it is, or was last."""
    uuid = models.CharField(max_length=100)
    index = models.PositiveSmallIntegerField()
    """Of the moment: the driver counts anew after each start."""
    name = models.CharField(max_length=100)
    memory_bytes = models.PositiveBigIntegerField(default=0)
    driver = models.CharField(max_length=20, blank=True)
    """Version of the driver that runs it; blank: not known."""
    serial = models.CharField(max_length=60, blank=True)
    pci_bus_id = models.CharField(max_length=20, blank=True)
    sharing = models.CharField(max_length=20, choices=GpuSharing.choices, default=GpuSharing.NONE, blank=True)
    state = models.CharField(max_length=20, choices=GpuState.choices, default=GpuState.PRESENT)
    state_since = models.DateTimeField(default=clock.now)

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["cluster", "uuid"], name="gpu_once")]
        ordering: ClassVar = ["index"]

    def __str__(self) -> str:
        return f"{self.node.name} GPU {self.index}"
