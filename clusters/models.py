from typing import ClassVar, Self

from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy

from accounts.querysets import TeamOrShared, TeamOwned
from accounts.states import Right
from clusters.drain_models import Drain as Drain
from clusters.states import (
    Alert,
    CheckResult,
    ClusterKind,
    ClusterState,
    DeploymentState,
    GpuSharing,
    GpuState,
    Group,
    NodeOperation,
    NodeState,
    WorkerState,
)
from clusters.token_models import FilesToken as FilesToken
from clusters.token_models import NodeAgent as NodeAgent
from clusters.token_models import RelayToken as RelayToken
from clusters.token_models import ReportToken as ReportToken
from common.actor import Actor
from common.hosts import MOST_CHARACTERS
from common.reconcile import Reconciled
from common.revisions import Revised

slug = RegexValidator(
    r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?\Z",
    gettext_lazy("Use lower-case letters, digits and hyphens; start and end with a letter or digit."),
)
MAX_REPLICAS = 256
MAX_SLOTS = 4_096


class ClusterRows(TeamOrShared["Cluster"]):
    team_path = "team"

    def present(self) -> Self:
        """Those that were not removed."""
        return self.filter(removed_at=None)

    def for_actor(self, actor: Actor, right: Right = Right.READ) -> Self:
        return super().for_actor(actor, right).present()


class NodeRows(TeamOrShared["Node"]):
    team_path = "cluster__team"


class Cluster(Reconciled, Revised):
    """A place that runs workers. It is surveyed again and again: its machines and whether it answers."""

    name = models.CharField(max_length=63, validators=[slug])
    """Of one that is there; it may be given again once this one is removed."""
    kind = models.CharField(max_length=20, choices=ClusterKind.choices)
    team = models.ForeignKey(
        "accounts.Team", on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    """The one that it belongs to; None: shared by all."""
    host = models.CharField(max_length=MOST_CHARACTERS, blank=True)
    """The one whose supervisord and files are its data plane; blank: it is reached over a network, by
    anybody."""
    region = models.CharField(max_length=63, blank=True)
    """Where it stands, in the words of the images' mirrors; blank: nowhere in particular."""
    provider = models.CharField(max_length=63, blank=True)
    """Whose machines they are: `aws`, `on-premises`; blank: not said."""
    labels = models.JSONField(default=dict, blank=True)
    """Of people, to find it by: values by key, as Kubernetes' labels."""
    settings = models.JSONField(default=dict, blank=True)
    """What the backend of this kind needs to reach it; each kind knows its own."""
    sealed_secrets = models.JSONField(default=dict, blank=True, editable=False)
    """By name, as `common.sealed` seals them."""
    problem = models.TextField(blank=True, editable=False)
    """Why it cannot be used at the moment, in words; empty while it can."""
    surveyed_at = models.DateTimeField(null=True, editable=False)
    relay_heard_at = models.DateTimeField(null=True, editable=False)
    """When its relay last reported; None: it has none, or was not heard yet."""
    relay_silent_since = models.DateTimeField(null=True, editable=False)
    counted_at = models.DateTimeField(null=True, editable=False)
    """When its pods were last counted, or could not be; None: not yet."""
    checks = models.JSONField(default=list, blank=True, editable=False)
    """`{name, result, detail}` each, in the order in which they were looked at."""
    checked_at = models.DateTimeField(null=True, editable=False)
    check_asked_at = models.DateTimeField(null=True, editable=False)
    """When somebody last wanted them anew."""
    removal_asked_at = models.DateTimeField(null=True, editable=False)
    """From then on nothing new goes there."""
    removal_by = models.CharField(max_length=200, blank=True, editable=False)
    removed_at = models.DateTimeField(null=True, editable=False)
    """The row stays, without secrets: what once ran there names it."""
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    objects = ClusterRows.as_manager()

    class Meta(Reconciled.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["name"], condition=Q(removed_at=None), name="cluster_once")
        ]
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def is_check_due(self) -> bool:
        """Whether somebody asked for checks since they were last made."""
        asked, made = self.check_asked_at, self.checked_at
        return asked is not None and (made is None or made < asked)

    @property
    def state(self) -> ClusterState:
        if self.removal_asked_at is not None:
            return ClusterState.REMOVING
        if self.problem:
            return ClusterState.UNAVAILABLE
        if self.checked_at is None or self.is_check_due:
            return ClusterState.CHECKING
        results = {one["result"] for one in self.checks}
        if CheckResult.FAILED in results:
            return ClusterState.NOT_READY
        return ClusterState.WARNING if CheckResult.WARNING in results else ClusterState.READY

    @property
    def own_lane(self) -> str:
        """Of whatever waits for its backend or for its workers."""
        return f"cluster:{self.name}"


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
    group = models.CharField(max_length=10, choices=Group.choices, default=Group.ONLINE)
    state = models.CharField(max_length=20, choices=NodeState.choices, default=NodeState.READY)
    state_since = models.DateTimeField(default=timezone.now)
    problem = models.TextField(blank=True)
    """Why it, or a part of it, could not be read; empty when all was."""
    seen_at = models.DateTimeField()
    """To the minute: kept current while the machine is seen, without a write per look."""
    seen_as = models.CharField(max_length=32, blank=True, editable=False)
    """Of all that was read of it, a digest: while it is the same, nothing needs to be written."""
    agent_silent_since = models.DateTimeField(null=True, editable=False)
    """When its agent was last heard, or first missed; None: it is heard, or the machine has none."""
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    objects = NodeRows.as_manager()

    class Meta(Reconciled.Meta):
        constraints: ClassVar = [models.UniqueConstraint(fields=["cluster", "uid"], name="node_once")]
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return f"{self.cluster.name}/{self.name}"


class Occupancy(models.Model):
    """What holds a cluster's GPUs, as it was seen last."""

    cluster = models.OneToOneField(Cluster, on_delete=models.CASCADE, related_name="occupancy")
    used = models.JSONField(default=dict)
    """By machine's name and name of the resource: `{ours, others}`, GPUs that pods hold."""
    pods = models.JSONField(default=dict)
    """By machine's name: `{ours, others}`, how many pods stand there."""
    sizes = models.JSONField(default=dict)
    """By name of the resource: how many pods ask for so many of it, by their size."""
    pending = models.JSONField(default=list)
    """`{namespace, name, deployment, gpus, why}` of pods that wait for a machine, those with GPUs first."""
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
    state_since = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["cluster", "uuid"], name="gpu_once")]
        ordering: ClassVar = ["index"]

    def __str__(self) -> str:
        return f"{self.node.name} GPU {self.index}"


class DeploymentRows(TeamOwned["Deployment"]):
    team_path = "team"


class Deployment(Reconciled):
    """A number of workers that serve one version for one service: the wish, and what came of it.

    The name is given by its maker, derived from what it is for, and never used twice.
    """

    name = models.CharField(max_length=63, unique=True, validators=[slug])
    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="+")
    team = models.ForeignKey("accounts.Team", on_delete=models.PROTECT, related_name="+")
    service = models.CharField(max_length=63, validators=[slug], db_index=True)
    version = models.ForeignKey("models_registry.Version", on_delete=models.PROTECT, related_name="+")
    version_label = models.CharField(max_length=200)
    """`model:version`, as answers carry it."""
    engine = models.CharField(max_length=30)
    replicas = models.PositiveSmallIntegerField(validators=[MaxValueValidator(MAX_REPLICAS)])
    prefetch_machines = models.PositiveSmallIntegerField(null=True, editable=False)
    """Before it wants workers, its files come to so many machines, 0: to all; null: with the workers."""
    slots = models.PositiveSmallIntegerField(validators=[MinValueValidator(1), MaxValueValidator(MAX_SLOTS)])
    """Requests that one worker works on at the same time."""
    device = models.CharField(max_length=20, default="auto")
    resources = models.JSONField(default=dict)
    pod = models.JSONField(default=dict)
    """How its workers' pods look: `clusters.backends.pod_settings.PodSettings`."""
    pod_patch = models.JSONField(default=dict)
    """What was changed of the template of its pods, as approved when it was made."""
    settings = models.JSONField(default=dict)
    """The engine's."""
    image = models.ForeignKey(
        "images.RuntimeImage", on_delete=models.PROTECT, null=True, related_name="+", editable=False
    )
    image_reference = models.CharField(max_length=600, blank=True, editable=False)
    """What the cluster pulls: with the digest, from the mirror of its region where there is one."""
    image_reason = models.TextField(blank=True, editable=False)
    """Why it is this image, or why there is none."""
    sealed_report_token = models.TextField(blank=True, editable=False)
    """With which its workers report, where no agent does it for them; as `common.sealed` seals it."""

    state = models.CharField(
        max_length=20, choices=DeploymentState.choices, default=DeploymentState.STARTING, editable=False
    )
    state_since = models.DateTimeField(default=timezone.now, editable=False)
    reason = models.TextField(blank=True, editable=False)
    """Why it is not ready, in words, with the log line that matters."""
    log_tail = models.TextField(blank=True, editable=False)
    """The last lines that the worst worker wrote before it ended; kept when the workers are gone."""
    files_reason = models.TextField(blank=True, editable=False)
    """Which way its files come to its workers, and why; blank: its kind of cluster has but one."""
    fetches = models.JSONField(default=list, editable=False)
    """Of its files, by the place that they are being brought to; see `clusters.file_fetches`."""
    generation = models.PositiveIntegerField(default=1, editable=False)
    """Counts the changes of the wish."""
    scale_fence = models.PositiveBigIntegerField(default=0, editable=False)
    """The highest fence that came with a number of workers; whoever carries a lower one is late."""
    ready_generation = models.PositiveIntegerField(default=0, editable=False)
    """The last wish that was wholly fulfilled; from then on a missing worker means degraded."""
    applied_generation = models.PositiveIntegerField(default=0, editable=False)
    """The wish that the backend was last told; 0 when it has to be told again."""
    observed_at = models.DateTimeField(null=True, editable=False)
    """When the backend was last seen; its workers' rows are of that moment."""
    redirected_at = models.DateTimeField(null=True, editable=False)
    """When requests were last turned away from some of its workers, or given back to them."""
    lost_restarts = models.PositiveIntegerField(default=0, editable=False)
    """Restarts of workers that are no longer there, so that the sum never falls."""

    op_key = models.CharField(max_length=200, editable=False)
    """The operation that made it: the same one may make it again, no other may."""
    created_by = models.CharField(max_length=200, editable=False)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    removal_asked_at = models.DateTimeField(null=True, editable=False)

    objects = DeploymentRows.as_manager()

    class Meta(Reconciled.Meta):
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return self.name


class WorkerLogRequest(Reconciled):
    """Somebody asks for the log of a worker whose host is another than that of the web: the row is the
    question, and for a moment the answer."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="+")
    worker = models.CharField(max_length=200)
    """Its id in the cluster."""
    lines = models.PositiveIntegerField()
    text = models.TextField(blank=True)
    problem = models.TextField(blank=True)
    is_missing = models.BooleanField(default=False)
    """There is no log of such a worker."""
    answered_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta(Reconciled.Meta):
        ordering: ClassVar = ["pk"]

    def __str__(self) -> str:
        return f"log of {self.worker}"


class WorkerRows(TeamOwned["Worker"]):
    team_path = "deployment__team"


class Worker(models.Model):
    """One worker of a deployment, as the backend last saw it. Written when something changed."""

    deployment = models.ForeignKey(Deployment, on_delete=models.CASCADE, related_name="workers")
    uid = models.CharField(max_length=200)
    """Given by the cluster: it survives restarts."""
    name = models.CharField(max_length=128, unique=True)
    """To show, and in addresses of pages."""
    node = models.ForeignKey(Node, on_delete=models.SET_NULL, null=True, related_name="workers")
    leaves_with = models.ForeignKey("clusters.Drain", on_delete=models.SET_NULL, null=True, related_name="+")
    """The drain of its machine for which it gets no more requests, as long as another worker can; None: it
    gets them."""
    address = models.CharField(max_length=253, blank=True)
    port = models.PositiveIntegerField(null=True)
    pid = models.PositiveIntegerField(null=True)
    state = models.CharField(max_length=20, choices=WorkerState.choices)
    state_since = models.DateTimeField()
    restarts = models.PositiveIntegerField(default=0)
    reason = models.TextField(blank=True)
    """Why it is not ready, or how its last process ended, in the backend's words."""
    crashes = models.PositiveIntegerField(default=0)
    """How often its process ended by itself since it was last ready for a while."""
    crashes_since = models.DateTimeField(null=True)
    crashed_at = models.DateTimeField(null=True)
    """The first and the last of them."""
    crash_line = models.TextField(blank=True)
    """The line of its log that says most about the last one."""
    alert = models.CharField(max_length=10, choices=Alert.choices, default=Alert.NONE, blank=True)
    alert_since = models.DateTimeField(null=True)

    objects = WorkerRows.as_manager()

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["deployment", "uid"], name="worker_once")]
        ordering: ClassVar = ["deployment", "name"]

    def __str__(self) -> str:
        return self.name
