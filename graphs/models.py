from typing import Any, ClassVar

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext as _

from accounts.querysets import TeamOwned
from accounts.team_rows import TeamRow
from common import clock
from common.jobs.rows import RunsJob
from common.reconcile import Reconciled
from graphs.states import OBJECTIVES, GraphPlanState, GraphState


class GraphRows(TeamOwned["Graph"]):
    """Graphs by team."""


class Graph(TeamRow):
    """An application as a DAG of tasks: a version of the registry with its code, and its description."""

    version = models.ForeignKey("models_registry.Version", on_delete=models.PROTECT, related_name="+")
    document = models.JSONField()
    """See `serving.graphs.description.GraphDescription`."""
    digest = models.CharField(max_length=80)
    origins = models.JSONField(default=dict)
    """By task: digest of its model's version, or of the graph's own where it has none."""
    state = models.CharField(max_length=20, choices=GraphState.choices, default=GraphState.RUNNING)

    objects = GraphRows.as_manager()


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
    reason = models.TextField(blank=True, editable=False)
    """Why it failed."""
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
