from typing import Any, ClassVar

from django.db import models

from accounts.querysets import TeamOwned
from accounts.team_rows import TeamRow
from benchmarks.load.scenario import LoadScenario, scenario_of
from benchmarks.states import BenchmarkState, RunState
from clusters.models.tokens import BoundToken
from common import clock
from common.jobs.rows import RunsJob
from common.reconcile import Reconciled, Singleton


class ScenarioRows(TeamOwned["BenchmarkScenario"]):
    pass


class BenchmarkRows(TeamOwned["Benchmark"]):
    pass


class BenchmarkScenario(TeamRow):
    """The requests of a benchmark and their times. It never changes: another content is another scenario."""

    content = models.JSONField(editable=False)
    """See `load.scenario.LoadScenario`."""
    digest = models.CharField(max_length=64, editable=False, db_index=True)

    objects = ScenarioRows.as_manager()

    @property
    def load(self) -> LoadScenario:
        return scenario_of(self.content)


class Benchmark(TeamRow, Reconciled, RunsJob):
    """Configurations of a deployment, run under one scenario and compared."""

    scenario = models.ForeignKey(BenchmarkScenario, on_delete=models.PROTECT, related_name="+")
    cluster = models.ForeignKey("clusters.Cluster", on_delete=models.PROTECT, related_name="+")
    spec = models.JSONField(editable=False)
    """As it was asked for; see `spec.BenchmarkSpec`."""
    state = models.CharField(
        max_length=20, choices=BenchmarkState.choices, default=BenchmarkState.RUNNING, editable=False
    )
    state_since = models.DateTimeField(default=clock.now, editable=False)
    reason = models.TextField(blank=True, editable=False)
    """Why it ended, or what it waits for."""
    ended_at = models.DateTimeField(null=True, editable=False)
    conclusion = models.JSONField(default=dict, editable=False)
    """Which configuration to use, and how sure that is: see `conclusion`."""
    resource = models.UUIDField(null=True, editable=False)
    """Uid of the custom resource that ordered it; None: it was ordered here."""
    estimates = models.JSONField(null=True, editable=False)
    """`{by, cells, refused, failed}` of AIConfigurator: for how many cells it told a prior, and why not for
    others; None: it was not asked so far."""
    # Those of the mixin, for a table that is older.
    job = models.CharField(max_length=63, blank=True, default="", db_default="", editable=False)
    job_host = models.CharField(max_length=255, blank=True, default="", db_default="", editable=False)
    launches = models.PositiveIntegerField(default=0, db_default=0, editable=False)

    objects = BenchmarkRows.as_manager()

    class Meta(TeamRow.Meta, Reconciled.Meta):
        indexes = Reconciled.Meta.indexes


class OfBenchmarks(TeamOwned[Any]):
    team_path = "benchmark__team"


class BenchmarkCell(models.Model):
    """A configuration: version, engine, image, machines and parameters."""

    benchmark = models.ForeignKey(Benchmark, on_delete=models.CASCADE, related_name="cells")
    position = models.PositiveIntegerField()
    version = models.ForeignKey("models_registry.Version", on_delete=models.PROTECT, related_name="+")
    engine = models.CharField(max_length=30)
    image = models.ForeignKey("images.RuntimeImage", on_delete=models.PROTECT, null=True, related_name="+")
    machine = models.CharField(max_length=63, blank=True)
    """Name of the kind of machines, as the space has it; blank: any of the cluster."""
    parameters = models.JSONField(default=dict)
    digest = models.CharField(max_length=64)
    refusal = models.TextField(blank=True)
    """Why it cannot run; then nothing is started."""
    prior = models.FloatField(null=True)
    """What the objective is thought to be before anything is measured."""

    objects = OfBenchmarks.as_manager()

    class Meta:
        ordering: ClassVar = ["position"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["benchmark", "digest"], name="benchmark_cell_once")
        ]

    @property
    def differs_by(self) -> dict[str, Any]:
        """Return everything by which cells of one benchmark can differ."""
        image = self.image.name if self.image else ""
        kind = {"version": str(self.version), "engine": self.engine, "machine": self.machine, "image": image}
        return {**kind, **self.parameters}

    def __str__(self) -> str:
        parameters = " ".join(f"{name}={value}" for name, value in self.parameters.items())
        return f"{self.version} {self.engine} {self.machine} {parameters}".strip().replace("  ", " ")


class BenchmarkRun(Reconciled, RunsJob):
    """A repeat of one configuration: a fresh server, the windows of the scenario, and the end of both."""

    benchmark = models.ForeignKey(Benchmark, on_delete=models.CASCADE, related_name="runs")
    cell = models.ForeignKey(BenchmarkCell, on_delete=models.CASCADE, related_name="runs")
    repeat = models.PositiveIntegerField()
    """Which of the cell's runs it is, from 1 on."""
    position = models.PositiveIntegerField()
    """Place in the order of the benchmark's runs."""
    fraction = models.FloatField(default=1.0)
    """Of the scenario's requests: a search looks shortly at first."""
    state = models.CharField(max_length=20, choices=RunState.choices, default=RunState.WAITING)
    state_since = models.DateTimeField(default=clock.now)
    outcome = models.CharField(max_length=20, choices=RunState.choices, blank=True)
    """How it ends once all of it is removed."""
    reason = models.TextField(blank=True)
    violations = models.JSONField(default=list)
    """Rules that its windows broke: see `validity`."""
    summaries = models.JSONField(default=list)
    """Of each window: see `figures.Summary`."""
    environment = models.JSONField(default=dict)
    progress = models.JSONField(default=dict)
    """What its generator is at: `{stage, window, rate}`."""
    load_result = models.JSONField(null=True, editable=False)
    """What a generator in the cluster handed in; None: nothing yet, or it runs beside the control plane."""
    deployment = models.CharField(max_length=63, blank=True)
    began_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    objects = OfBenchmarks.as_manager()

    class Meta(Reconciled.Meta):
        ordering: ClassVar = ["position"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["benchmark", "position"], name="benchmark_run_once")
        ]

    def __str__(self) -> str:
        return f"run {self.position} of {self.benchmark}"


class BenchmarkFigure(models.Model):
    """A figure of one window of a run. Its interval describes the window; repeats are what compares."""

    run = models.ForeignKey(BenchmarkRun, on_delete=models.CASCADE, related_name="figures")
    window = models.PositiveIntegerField()
    rate = models.FloatField()
    name = models.CharField(max_length=40)
    unit = models.CharField(max_length=30, blank=True)
    value = models.FloatField()
    low = models.FloatField(null=True)
    high = models.FloatField(null=True)
    samples = models.PositiveIntegerField(default=0)
    is_valid = models.BooleanField()

    class Meta:
        ordering: ClassVar = ["window", "name"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["run", "window", "name"], name="benchmark_figure_once")
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.value:g} {self.unit}".strip()


class BenchmarkRecords(models.Model):
    """The records of a run's requests, compressed, in the model store."""

    run = models.OneToOneField(BenchmarkRun, on_delete=models.CASCADE, related_name="records")
    sha256 = models.CharField(max_length=64)
    size = models.PositiveBigIntegerField()
    created_at = models.DateTimeField(default=clock.now)

    def __str__(self) -> str:
        return f"records of {self.run}"


class SystemSeries(models.Model):
    """System figures over the time of a run."""

    run = models.OneToOneField(BenchmarkRun, on_delete=models.CASCADE, related_name="system")
    content = models.JSONField()
    """See `load.system_series`."""

    def __str__(self) -> str:
        return f"system figures of {self.run}"


class BenchmarkLease(models.Model):
    """A machine, or kind of machines, that one run has to itself, or one job that takes its GPUs."""

    key = models.CharField(max_length=200, unique=True)
    run = models.OneToOneField(BenchmarkRun, on_delete=models.CASCADE, null=True, related_name="lease")
    holder = models.CharField(max_length=200, blank=True, default="", db_default="")
    """Who else has it, for people."""
    since = models.DateTimeField(default=clock.now)

    def __str__(self) -> str:
        return f"{self.key} for {self.run or self.holder}"


class BenchmarkLoadToken(BoundToken):
    """Token by which the load generator of a run fetches its order and hands in its results."""

    run = models.ForeignKey(BenchmarkRun, on_delete=models.CASCADE, related_name="+")

    def __str__(self) -> str:
        return f"load of {self.run}"


class BenchmarkResources(Singleton):
    """Mirrors benchmarks that custom resources of clusters order."""

    def __str__(self) -> str:
        return "custom resources of benchmarks"


class BenchmarkCleanup(Singleton):
    """Removes workers of runs that have ended."""

    def __str__(self) -> str:
        return "cleanup of benchmarks"
