from typing import ClassVar

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from accounts.querysets import TeamOwned
from clusters.models.clusters import Cluster, slug
from clusters.models.nodes import Node
from clusters.states import (
    Alert,
    DeploymentState,
    WorkerState,
)
from common import clock
from common.reconcile import Reconciled

MAX_REPLICAS = 256
MAX_SLOTS = 4_096


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
    observed_replicas = models.PositiveSmallIntegerField(null=True, editable=False)
    """What others made of `replicas`, by right (`pod` says `replicas: external`) or past Slipway; null: it
    holds."""
    replicas_by = models.CharField(max_length=128, blank=True, editable=False)
    """Who they are, as the cluster names them."""
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
    adapters = models.JSONField(default=dict, blank=True, db_default=models.Value({}, models.JSONField()))
    """LoRA adapters that its workers load beside their version: `{name: {"version": id, "label": ...}}`."""
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
    state_since = models.DateTimeField(default=clock.now, editable=False)
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
    created_at = models.DateTimeField(default=clock.now, editable=False)
    removal_asked_at = models.DateTimeField(null=True, editable=False)

    objects = DeploymentRows.as_manager()

    class Meta(Reconciled.Meta):
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def leaves_scale(self) -> bool:
        """Whether others decide how many workers it has."""
        return bool(self.pod.get("replicas") == "external")

    @property
    def scaled_by_others(self) -> bool:
        """Whether others decide, by right or because they set it past Slipway since our last wish."""
        return self.leaves_scale or self.observed_replicas is not None

    @property
    def wanted_replicas(self) -> int:
        return self.replicas if self.observed_replicas is None else self.observed_replicas


class WorkerLogRequest(Reconciled):
    """Somebody asks for the log of a worker or workload whose host is another than that of the web: the row
    is the question, and for a moment the answer."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="+")
    worker = models.CharField(max_length=200)
    """Its id in the cluster, or the name that a workload has there."""
    run = models.PositiveIntegerField(null=True)
    """Of the workload; None: it is a worker."""
    lines = models.PositiveIntegerField()
    text = models.TextField(blank=True)
    problem = models.TextField(blank=True)
    is_missing = models.BooleanField(default=False)
    """There is no log of such a worker."""
    answered_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(default=clock.now)

    class Meta(Reconciled.Meta):
        ordering: ClassVar = ["pk"]

    def __str__(self) -> str:
        return f"log of {self.worker}"


class WorkerRows(TeamOwned["Worker"]):
    team_path = "deployment__team"


class Worker(models.Model):
    """A worker of a deployment, as the backend last saw it. Written when something changed."""

    deployment = models.ForeignKey(Deployment, on_delete=models.CASCADE, related_name="workers")
    uid = models.CharField(max_length=200)
    """Given by the cluster: it survives restarts."""
    name = models.CharField(max_length=128, unique=True)
    """To show, and in addresses of pages."""
    node = models.ForeignKey(Node, on_delete=models.SET_NULL, null=True, related_name="workers")
    leaves_with = models.ForeignKey("clusters.Drain", on_delete=models.SET_NULL, null=True, related_name="+")
    """The drain of its machine for which it gets no more requests, as long as another worker can; None: it
    gets them."""
    offline_since = models.DateTimeField(null=True)
    """Since when it works off jobs and gets no requests, as long as another worker can; None: it gets
    them."""
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
