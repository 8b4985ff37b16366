from typing import Any

from rest_framework import serializers

from accounts.api.team_rows import TeamRowSerializer
from common.api.examples import example
from common.audit import MAX_REASON
from optimization import documents
from optimization.family import family_of
from optimization.models import OptimizationRun
from optimization.planning import DEFAULT_REPEATS
from optimization.states import RunPlace

ROW = {
    "id": 7,
    "name": "chat-v1-int8-dynamic",
    "team": "speech",
    "description": "",
    "state": "passed",
    "reason": "",
    "parent": "chat:v1",
    "child": "chat:v2",
    "recipe": "local/int8-dynamic",
    "parameters": {"bits": 8},
    "seed": 0,
    "margin": 1.0,
    "benchmark": 12,
    "batch": "",
    "place": "local",
    "gpus": 0,
    "progress": {},
    "created_at": "2026-11-20T08:00:00Z",
    "created_by": "olga",
    "ended_at": "2026-11-20T08:40:00Z",
}
ORDER = {
    "team": "speech",
    "parent": "chat:v1",
    "recipe": "local/int8-dynamic",
    "cluster": "local",
    "test": "chat-tests:v1/items.jsonl",
}
VERDICT = {
    "metric": "perplexity",
    "result": "passed",
    "items": 400,
    "needed_items": None,
    "parent": 12.1,
    "child": 12.14,
    "difference": -0.33,
    "low": -0.41,
    "high": -0.25,
    "margin": 1.0,
    "p_value": 0.0001,
    "flip_rate": 1.0,
}


@example(ROW)
class OptimizationSerializer(TeamRowSerializer[OptimizationRun]):
    parent: Any = serializers.CharField()
    child = serializers.CharField(allow_null=True, help_text="The version that was made; null: none yet.")
    benchmark = serializers.IntegerField(source="benchmark_id", allow_null=True, help_text="Its benchmark.")
    parameters = serializers.DictField(help_text="Parameters of the recipe.")
    progress = serializers.DictField(help_text="Of the job that runs: stage, done, total, memory_bytes.")

    class Meta(TeamRowSerializer.Meta):
        model = OptimizationRun
        fields = tuple(ROW)


@example(
    {
        **ROW,
        "result": {
            "schema": 1,
            "recipe_digest": "4c1b",
            "calibration": None,
            "test": {"label": "chat-tests:v1", "path": "items.jsonl", "sha256": "9f86"},
            "limits": {"memory_bytes": 900_000_000},
            "made": {"seconds": 12.5, "libraries": {"torch": "2.13.0"}},
            "accuracy": {"items": 400, "scores_sha256": "60af", "verdicts": [VERDICT], "worst": []},
            "speed": [{"rate": 4.0, "name": "output_rate", "ratio": 1.9, "low": 1.8, "high": 2.0}],
            "benchmark_order": {"cluster": "local", "gain": 1.0},
            "measured_on": ["NVIDIA H100 80GB HBM3, driver 580.65.06: vllm 0.11.0"],
            "batch": None,
            "family": [
                {
                    "version": "chat:v2",
                    "run": 7,
                    "recipe": "local/int8-dynamic",
                    "metric": "perplexity",
                    "value": 12.14,
                    "cost": 0.53,
                    "size_bytes": 20_000_000,
                    "is_best": True,
                }
            ],
        },
    }
)
class OptimizationDetailSerializer(OptimizationSerializer):
    result = serializers.SerializerMethodField(
        help_text="Inputs, what was made, accuracy and speed against the parent: docs/OPTIMISATION.md."
    )

    class Meta(OptimizationSerializer.Meta):
        fields = (*ROW, "result")

    def get_result(self, row: OptimizationRun) -> dict[str, Any]:
        actor = self.context["request"]._request.actor
        members = family_of(actor, row.parent, test_sha256=row.test.get("sha256", ""))
        return documents.document_of(row, members)


class OptimizationOrderSerializer(serializers.Serializer[Any]):
    """An order of one recipe or of several."""

    team = serializers.CharField(max_length=63, help_text="Owner.")
    parent: Any = serializers.CharField(max_length=200, help_text="The version to optimise: model:version.")
    cluster = serializers.CharField(max_length=63, help_text="Where parent and child are benchmarked.")
    test = serializers.CharField(
        max_length=1300, help_text="Test set, a file of a version: model:version/path."
    )
    calibration = serializers.CharField(
        max_length=1300, required=False, allow_blank=True, help_text="Calibration set, likewise."
    )
    parameters = serializers.DictField(required=False, help_text="Parameters of the recipe.")
    margin = serializers.FloatField(
        required=False,
        help_text="Largest accepted loss: points of accuracy, percent of perplexity. Default 1.",
    )
    gain = serializers.FloatField(
        required=False,
        help_text="Speedup that one figure must be shown to reach. Default 1: none may be over 5 % worse.",
    )
    engine = serializers.CharField(max_length=30, required=False, help_text="Default transformers.")
    scenario = serializers.DictField(
        required=False, help_text="Load of the benchmark: docs/BENCHMARKS.md. Default: four at a time."
    )
    compare_batching = serializers.BooleanField(
        required=False,
        help_text="Measure static batching, too: the result has continuous beside it. Twice as long.",
    )
    load_of = serializers.CharField(
        max_length=128,
        required=False,
        allow_blank=True,
        help_text="Instead of a scenario: a service of the team, whose lengths and rates of the last seven "
        "days are taken, never its prompts.",
    )
    place = serializers.ChoiceField(
        choices=RunPlace.choices,
        required=False,
        help_text="Where its jobs run: `cluster` is a Job of the cluster. Default local.",
    )
    gpus = serializers.IntegerField(
        min_value=0, required=False, help_text="GPUs of the recipe's Job, with place `cluster`. Default 0."
    )
    repeats = serializers.IntegerField(
        min_value=DEFAULT_REPEATS, max_value=20, required=False, help_text="Runs of each version."
    )


@example(ORDER)
class OptimizationPlanRequestSerializer(OptimizationOrderSerializer):
    recipe = serializers.CharField(max_length=100, help_text="See optimizations/recipes/.")


class _NamedOrderSerializer(OptimizationOrderSerializer):
    name = serializers.CharField(max_length=63, required=False, allow_blank=True)
    description = serializers.CharField(max_length=500, required=False, allow_blank=True)
    seed = serializers.IntegerField(min_value=0, max_value=2**53, required=False)


@example({**ORDER, "name": "chat-int8"})
class NewOptimizationSerializer(_NamedOrderSerializer, OptimizationPlanRequestSerializer):
    pass


BATCH = {name: value for name, value in ORDER.items() if name != "recipe"}


@example({**BATCH, "recipes": ["local/int8-dynamic", "local/prune-mlp"], "budget_hours": 2.0})
class OptimizationBatchRequestSerializer(_NamedOrderSerializer):
    recipes = serializers.ListField(
        child=serializers.CharField(max_length=100), help_text="See optimizations/recipes/; one run each."
    )
    budget_hours = serializers.FloatField(
        required=False,
        allow_null=True,
        help_text="With a budget runs take turns; one whose estimate exceeds the rest is not begun.",
    )
    budget_cost = serializers.FloatField(
        required=False, allow_null=True, help_text="Of their GPUs, in the currency of the prices."
    )


@example({"batch": "chat-v1-batch", "runs": [ROW]})
class OptimizationBatchSerializer(serializers.Serializer[Any]):
    batch = serializers.CharField()
    runs = OptimizationSerializer(many=True)


@example(
    {
        "recipe": "local/int8-dynamic",
        "parameters": {"bits": 8},
        "memory_bytes": 900_000_000,
        "disk_bytes": 20_000_000,
        "seconds": 40,
        "benchmark_hours": 0.3,
        "benchmark_price": None,
        "warnings": [],
    }
)
class OptimizationPlanSerializer(serializers.Serializer[Any]):
    recipe = serializers.CharField()
    parameters = serializers.DictField()
    memory_bytes = serializers.IntegerField(help_text="Estimate.")
    disk_bytes = serializers.IntegerField(help_text="Estimate.")
    seconds = serializers.IntegerField(help_text="Estimate of the recipe alone.")
    benchmark_hours = serializers.FloatField()
    benchmark_price = serializers.FloatField(allow_null=True)
    warnings = serializers.ListField(
        child=serializers.CharField(), help_text="Such as a licence that forbids derivatives."
    )


@example({"reason": "Not needed any more."})
class OptimizationCancelSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=MAX_REASON, required=False, allow_blank=True)


RECIPE = {
    "name": "local/int8-dynamic",
    "family": "local",
    "title": "INT8 weights, dynamic INT8 activations",
    "about": "Rounds the linear layers to 8 bits.",
    "parameters": [],
    "needs_calibration": False,
    "needs_gpu": False,
    "makes": "texts",
    "engines": ["transformers", "vllm"],
    "digest": "4c1b",
}


@example(RECIPE)
class OptimizationRecipeSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    family = serializers.CharField(help_text="Recipes of one family share an environment.")
    title = serializers.CharField()
    about = serializers.CharField()
    parameters = serializers.ListField(child=serializers.DictField())
    needs_calibration = serializers.BooleanField()
    needs_gpu = serializers.BooleanField()
    makes = serializers.CharField(help_text="texts, or pictures: its test set has seeds.")
    engines = serializers.ListField(child=serializers.CharField(), help_text="Engines that load the result.")
    digest = serializers.CharField(help_text="Of the recipe, its programs and its environment.")


@example({"recipes": [RECIPE]})
class OptimizationRecipesSerializer(serializers.Serializer[Any]):
    recipes = OptimizationRecipeSerializer(many=True)
