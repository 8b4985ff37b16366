"""Payloads of webhooks about benchmarks, with REST's documents."""

from benchmarks.api.serializers import BenchmarkDetailSerializer
from benchmarks.models import Benchmark
from common.webhooks.catalogue import EventPayload, Ids


def benchmark_payload(ids: Ids) -> EventPayload | None:
    row = (
        Benchmark.objects.select_related("team", "cluster", "scenario").filter(pk=ids["benchmark_id"]).first()
    )
    if row is None:
        return None
    return EventPayload(row.team_id, {**ids, "benchmark": BenchmarkDetailSerializer(row).data})
