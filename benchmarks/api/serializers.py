from typing import Any

from rest_framework import serializers

from accounts.api.team_rows import TeamRowSerializer
from benchmarks import documents
from benchmarks.models import Benchmark
from common.api.examples import example
from common.audit import MAX_REASON

SCENARIO = {"arrivals": "poisson", "rates": [1, 2, 4], "requests": 200, "targets": {"ttft_ms": 300}}
SPEC = {"versions": ["chat:v1"], "space": {"parameters": {"slots": [2, 4, 8]}}, "repeats": 5}
ROW = {
    "id": 7,
    "name": "chat-slots",
    "team": "speech",
    "description": "",
    "state": "finished",
    "reason": "",
    "cluster": "local",
    "created_at": "2026-11-20T08:00:00Z",
    "created_by": "olga",
    "ended_at": "2026-11-20T09:10:00Z",
}


@example(ROW)
class BenchmarkSerializer(TeamRowSerializer[Benchmark]):
    cluster = serializers.CharField(source="cluster.name")

    class Meta(TeamRowSerializer.Meta):
        model = Benchmark
        fields = tuple(ROW)


@example(
    {
        **ROW,
        "result": {
            "schema": 1,
            "scenario": SCENARIO,
            "scenario_digest": "4c1b",
            "spec": SPEC,
            "conclusion": {"best": 3, "verdict": "best"},
            "cells": [],
            "runs": [],
        },
    }
)
class BenchmarkDetailSerializer(BenchmarkSerializer):
    result = serializers.SerializerMethodField(
        help_text="Configurations with their figures, runs, and which one to use: docs/BENCHMARKS.md."
    )

    class Meta(BenchmarkSerializer.Meta):
        fields = (*ROW, "result")

    def get_result(self, row: Benchmark) -> dict[str, Any]:
        return documents.document_of(row)


@example({"team": "speech", "cluster": "local", "scenario": SCENARIO, "spec": SPEC})
class BenchmarkPlanRequestSerializer(serializers.Serializer[Any]):
    team = serializers.CharField(max_length=63, help_text="Owner.")
    cluster = serializers.CharField(max_length=63, help_text="Where it runs.")
    scenario = serializers.DictField(
        help_text="Requests, their arrivals and latency targets: docs/BENCHMARKS.md."
    )
    spec = serializers.DictField(help_text="Versions, space, objective, repeats and budget.")


@example({"name": "chat-slots", "team": "speech", "cluster": "local", "scenario": SCENARIO, "spec": SPEC})
class NewBenchmarkSerializer(BenchmarkPlanRequestSerializer):
    name = serializers.CharField(max_length=63)
    description = serializers.CharField(max_length=500, required=False, allow_blank=True)


@example(
    {
        "cells": 3,
        "runs": 15,
        "hours": 2.1,
        "gpu_hours": 0.0,
        "price": None,
        "refused": [],
    }
)
class BenchmarkPlanSerializer(serializers.Serializer[Any]):
    cells = serializers.IntegerField()
    runs = serializers.IntegerField(help_text="Maximum, without repeats of invalid runs.")
    hours = serializers.FloatField()
    gpu_hours = serializers.FloatField()
    price = serializers.FloatField(allow_null=True, help_text="null: no GPU, or no price is set.")
    refused = serializers.ListField(
        child=serializers.DictField(), help_text="Cells that cannot run, and why."
    )


@example({"reason": "Not needed any more."})
class BenchmarkCancelSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=MAX_REASON, required=False, allow_blank=True)


@example({"schema": 1, "ours": 3, "theirs": 4, "figures": []})
class CellComparisonSerializer(serializers.Serializer[Any]):
    schema = serializers.IntegerField()
    ours = serializers.IntegerField()
    theirs = serializers.IntegerField()
    figures = serializers.ListField(
        child=serializers.DictField(), help_text="Ratio of each figure at each rate, with its interval."
    )
