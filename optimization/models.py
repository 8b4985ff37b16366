from typing import ClassVar

from django.db import models

from accounts.querysets import TeamOwned
from accounts.team_rows import TeamRow
from clusters.models.tokens import BoundToken
from common import clock
from common.jobs.rows import RunsJob
from common.reconcile import Reconciled
from optimization.recipes import OptimizationRecipe, recipes
from optimization.states import AccuracyResult, OptimizationState, RunPlace


class OptimizationRunRows(TeamOwned["OptimizationRun"]):
    pass


class OptimizationRun(TeamRow, Reconciled, RunsJob):
    """A recipe applied to a version: a new version, what became of its accuracy, and its benchmark."""

    parent = models.ForeignKey("models_registry.Version", on_delete=models.PROTECT, related_name="+")
    recipe = models.CharField(max_length=100, editable=False)
    recipe_digest = models.CharField(max_length=64, editable=False)
    parameters = models.JSONField(default=dict, editable=False)
    seed = models.BigIntegerField(default=0, editable=False)
    calibration_version = models.ForeignKey(
        "models_registry.Version", on_delete=models.PROTECT, null=True, editable=False, related_name="+"
    )
    calibration = models.JSONField(default=dict, editable=False)
    """The file of that version, as `inputs.item_file` names it; empty: none."""
    test_version = models.ForeignKey(
        "models_registry.Version", on_delete=models.PROTECT, editable=False, related_name="+"
    )
    test = models.JSONField(default=dict, editable=False)
    margin = models.FloatField(editable=False)
    """Largest loss that is accepted: points of accuracy, percent of perplexity."""
    benchmark_order = models.JSONField(default=dict, editable=False)
    """Cluster, scenario, spec and the gain that is demanded; empty: no benchmark."""
    batch = models.CharField(max_length=63, blank=True, editable=False)
    """Name of the runs of its team that were ordered together; empty: it was ordered alone."""
    budget = models.JSONField(default=dict, editable=False)
    """Of the batch: `hours`, `cost`, `estimate`; empty: none. See `budgets`."""
    began_at = models.DateTimeField(null=True, editable=False)
    place = models.CharField(max_length=10, choices=RunPlace.choices, default=RunPlace.LOCAL, editable=False)
    gpus = models.PositiveIntegerField(default=0, editable=False)
    """Of the recipe's Job."""
    gpu_seconds = models.FloatField(default=0, editable=False)
    """GPU time that the recipe's Job has taken."""
    handed_in = models.JSONField(null=True, editable=False)
    """Result and files that its job in a cluster has handed in; see `job_results`."""
    environment = models.CharField(max_length=100, blank=True, editable=False)
    """Name of its environment's directory, or of the family as long as there is none; empty: the recipe runs
    where Slipway does."""
    test_environment = models.CharField(max_length=100, blank=True, editable=False)
    """The same of the environment that answers a task file; empty: the test set is none."""
    limits = models.JSONField(default=dict, editable=False)
    """See `limits.RunLimits`."""
    state = models.CharField(
        max_length=20, choices=OptimizationState.choices, default=OptimizationState.PREPARING, editable=False
    )
    state_since = models.DateTimeField(default=clock.now, editable=False)
    reason = models.TextField(blank=True, editable=False)
    progress = models.JSONField(default=dict, editable=False)
    """Of its job: `{stage, done, total, memory_bytes}`."""
    made = models.JSONField(default=dict, editable=False)
    """Libraries, seconds, memory and details as the job said, and the host where its output lies."""
    log = models.TextField(blank=True, editable=False)
    """The end of what its last job wrote."""
    child = models.ForeignKey(
        "models_registry.Version", on_delete=models.PROTECT, null=True, editable=False, related_name="+"
    )
    benchmark = models.ForeignKey(
        "benchmarks.Benchmark", on_delete=models.SET_NULL, null=True, editable=False, related_name="+"
    )
    speed = models.JSONField(default=list, editable=False)
    """Ratios of the child's figures to the parent's, with intervals and verdicts; see `speed.SpeedRatio`."""
    ended_at = models.DateTimeField(null=True, editable=False)
    is_held = models.BooleanField(default=True, editable=False)
    """Its directory, or a job, may still be there."""

    objects = OptimizationRunRows.as_manager()

    class Meta(TeamRow.Meta, Reconciled.Meta):
        indexes = Reconciled.Meta.indexes

    @property
    def known_recipe(self) -> OptimizationRecipe | None:
        """Return the recipe as it is installed now; None: it is no more."""
        return recipes().get(self.recipe)


class OptimizationJobToken(BoundToken):
    """Token by which the job of a run in a cluster fetches its order and hands in its results."""

    run = models.ForeignKey(OptimizationRun, on_delete=models.CASCADE, related_name="+")

    def __str__(self) -> str:
        return f"job of {self.run}"


class AccuracyCheck(models.Model):
    """The answers of parent and child to the same items: in the model store, item by item."""

    run = models.OneToOneField(OptimizationRun, on_delete=models.CASCADE, related_name="check_of_accuracy")
    items = models.PositiveIntegerField()
    sha256 = models.CharField(max_length=64)
    size = models.PositiveBigIntegerField()
    worst = models.JSONField(default=list)
    """The items on which the child lost most."""
    created_at = models.DateTimeField(default=clock.now)

    def __str__(self) -> str:
        return f"accuracy of {self.run}"


class AccuracyVerdict(models.Model):
    """Verdict on one metric of an accuracy check; see `noninferiority.PairedEstimate`."""

    check_of = models.ForeignKey(AccuracyCheck, on_delete=models.CASCADE, related_name="verdicts")
    metric = models.CharField(max_length=40)
    items = models.PositiveIntegerField()
    parent_value = models.FloatField()
    child_value = models.FloatField()
    difference = models.FloatField()
    low = models.FloatField()
    high = models.FloatField()
    margin = models.FloatField()
    p_value = models.FloatField()
    flip_rate = models.FloatField()
    result = models.CharField(max_length=20, choices=AccuracyResult.choices)
    needed_items = models.PositiveIntegerField(null=True)

    class Meta:
        ordering: ClassVar = ["metric"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["check_of", "metric"], name="accuracy_verdict_once")
        ]

    def __str__(self) -> str:
        return f"{self.metric}: {self.result}"
