from typing import Any, ClassVar

from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext as _

from accounts.querysets import TeamOwned
from accounts.team_rows import TeamRow
from common import clock
from common.jobs.rows import RunsJob
from common.reconcile import Reconciled
from common.revisions import Revised
from graphs.states import OBJECTIVES, AdaptMode, GraphPlanState, GraphState, PlanKind


class GraphRows(TeamOwned["Graph"]):
    """Graphs by team."""


class Graph(TeamRow, Reconciled, Revised):
    """An application as a DAG of tasks: a version of the registry with its code, and its description."""

    version = models.ForeignKey("models_registry.Version", on_delete=models.PROTECT, related_name="+")
    document = models.JSONField()
    """See `serving.graphs.description.GraphDescription`."""
    digest = models.CharField(max_length=80)
    origins = models.JSONField(default=dict)
    """By task: digest of its model's version, or of the graph's own where it has none."""
    state = models.CharField(max_length=20, choices=GraphState.choices, default=GraphState.RUNNING)
    adapt = models.CharField(max_length=20, choices=AdaptMode.choices, default=AdaptMode.ADVISE)
    gain_percent = models.PositiveSmallIntegerField(default=10, validators=[MinValueValidator(1)])
    """Share of the items of `horizon_seconds` that an adapted plan must bring beyond its start's cost."""
    horizon_seconds = models.PositiveIntegerField(default=3_600, validators=[MinValueValidator(60)])
    dwell_seconds = models.PositiveIntegerField(default=600)
    """For which a plan stays active before an adapted one replaces it."""
    starts_per_day = models.PositiveSmallIntegerField(default=12, validators=[MinValueValidator(1)])
    """Adapted plans that may be started within 24 hours."""
    look = models.JSONField(default=dict, editable=False)
    """Its workers when they were last asked: `graphs.looks`."""
    window = models.JSONField(default=dict, editable=False)
    """Counters of its workers when the minute began and at the last look: `graphs.looks`."""
    profiling = models.JSONField(default=dict, editable=False)
    """Order of a profile: `state` (waiting, running, failed), `by`, `since`, `worker`, `reason`."""
    observed_at = models.DateTimeField(null=True, editable=False)

    objects = GraphRows.as_manager()

    class Meta(TeamRow.Meta, Reconciled.Meta):
        indexes = Reconciled.Meta.indexes


class GraphPush(models.Model):
    """A push of a graph. The latest `MOST_PUSHES` of a graph are kept for comparisons."""

    graph = models.ForeignKey(Graph, on_delete=models.CASCADE, related_name="pushes")
    version = models.CharField(max_length=200)
    """Name of the version with the code, which may be deleted."""
    document = models.JSONField()
    pushed_at = models.DateTimeField(default=clock.now)
    pushed_by = models.CharField(max_length=200)

    class Meta:
        ordering = ("-pk",)

    def __str__(self) -> str:
        return self.version


class GraphVersion(models.Model):
    """A version of the registry that one task of a graph loads, beside the graph's own."""

    graph = models.ForeignKey(Graph, on_delete=models.CASCADE, related_name="versions")
    task = models.CharField(max_length=100)
    version = models.ForeignKey("models_registry.Version", on_delete=models.PROTECT, related_name="+")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["graph", "task"], name="version_once_of_task")
        ]

    def __str__(self) -> str:
        return f"{self.task}: {self.version}"


class TaskModel(models.Model):
    """A version whose files tasks of a graph load, laid out with the version that holds the graph's code.

    It outlives later pushes of the graph: whoever returns to the code finds its models.
    """

    code = models.ForeignKey("models_registry.Version", on_delete=models.CASCADE, related_name="+")
    version = models.ForeignKey("models_registry.Version", on_delete=models.PROTECT, related_name="+")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["code", "version"], name="task_model_once_of_code")
        ]

    def __str__(self) -> str:
        return f"{self.code}: {self.version}"


class OfGraphs(TeamOwned[Any]):
    team_path = "graph__team"


class TaskProfile(models.Model):
    """Measured times, memory and cores of one task on one kind of machine."""

    graph = models.ForeignKey(Graph, on_delete=models.CASCADE, related_name="profiles")
    task = models.CharField(max_length=100)
    option = models.CharField(max_length=63)
    """`cpu`, or the kind of card."""
    origin = models.CharField(max_length=80)
    """Digest of the model's version that ran; the profile is stale when the graph has another."""
    image = models.CharField(max_length=300, blank=True)
    driver = models.CharField(max_length=63, blank=True)
    figures = models.JSONField()
    """Times by batch size with their intervals, cores, memory, bytes, visits."""
    machine = models.JSONField()
    """Where it ran: name, cores, memory, cards."""
    measured_at = models.DateTimeField(default=clock.now)
    created_by = models.CharField(max_length=200)

    objects = OfGraphs.as_manager()

    class Meta:
        ordering: ClassVar = ["task", "option"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["graph", "task", "option"], name="profile_once_of_task")
        ]

    def __str__(self) -> str:
        return f"{self.task}, {self.option}"

    @property
    def is_stale(self) -> bool:
        return bool(self.origin != self.graph.origins.get(self.task))


class TaskGraphPlan(Reconciled, RunsJob):
    """Replicas, batches and places of a graph's tasks: ordered, computed by a job, started, replaced."""

    graph = models.ForeignKey(Graph, on_delete=models.CASCADE, related_name="plans")
    state = models.CharField(
        max_length=20, choices=GraphPlanState.choices, default=GraphPlanState.PLANNING, editable=False
    )
    state_since = models.DateTimeField(default=clock.now, editable=False)
    kind = models.CharField(max_length=20, choices=PlanKind.choices, default=PlanKind.ORDERED, editable=False)
    adaptation = models.JSONField(default=dict, editable=False)
    """Of an adapted plan: what was measured (`factors` of times by task, the rate `before`), and its gain."""
    reason = models.TextField(blank=True, editable=False)
    """Why it failed or was dismissed."""
    digest = models.CharField(max_length=80)
    """Of the graph that it is for."""
    request = models.JSONField()
    """Input of the planner: `graphs.planning.documents.request_of` reads it."""
    result = models.JSONField(default=dict, editable=False)
    """`plan` with `explanation`, or `shortages`."""
    runtime = models.JSONField(default=dict, editable=False)
    """The plan as the executor reads it: `serving.graphs.plan.GraphPlan`."""
    created_at = models.DateTimeField(default=clock.now, editable=False)
    created_by = models.CharField(max_length=200, editable=False)
    started_at = models.DateTimeField(null=True, editable=False)

    objects = OfGraphs.as_manager()

    class Meta(Reconciled.Meta):
        ordering: ClassVar = ["-pk"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["graph"], condition=Q(state="active"), name="one_active_plan_of_graph"
            )
        ]

    def __str__(self) -> str:
        return _("Plan %(number)s of %(pool)s") % {"number": self.pk, "pool": self.graph}

    def get_objective_display(self) -> str:
        return str(dict(OBJECTIVES)[self.request["objective"]])
