"""System figures of machines that only the Prometheus of their cluster scrapes."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from benchmarks.models import Benchmark, BenchmarkRun
from benchmarks.scraped_figures import with_scraped
from clusters.models import Cluster, Node
from common import clock
from gateway.models import Gateway
from gateway.states import MetricsKind
from tests.gateway.prometheus_server import Prometheus, serving

BEGAN = 1_900_000_000.0
SYSTEM = {"began": BEGAN, "step": 1, "series": {"running": [1.0] * 61, "gpu_power gpu-2 0": [300.0] * 61}}


@pytest.fixture
def prometheus() -> Iterator[tuple[Prometheus, str]]:
    """Two machines of its cluster and one of another, scraped every 15 s, with one scrape of GPUs missed."""
    found = Prometheus()
    for turn in range(6):
        found.now = BEGAN - 15 + 15 * turn
        # Each of the two cores idles a quarter of the time.
        idle = f'node_cpu_seconds_total{{cpu="%s",mode="idle"}} {900 + 3.75 * turn}\n'
        memory = "node_memory_MemTotal_bytes 1000\nnode_memory_MemAvailable_bytes 400\n"
        busy = 'node_cpu_seconds_total{cpu="0",mode="user"} 7\n'
        found.scrape(idle % 0 + idle % 1 + busy + memory, instance="10.0.0.7:9100", cluster="a")
        found.scrape(memory.replace("400", "1"), instance="10.0.0.7:9100", cluster="b")
        if turn != 3:
            gpu = f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",Hostname="gpu-1"}} {50 + turn}\n'
            power = 'DCGM_FI_DEV_POWER_USAGE{gpu="0",Hostname="gpu-2"} 1\n'
            found.scrape(gpu + power, instance="10.9.9.9:9400", cluster="a")
    with serving(found) as url:
        yield found, url


def run_on(url: str) -> BenchmarkRun:
    cluster = Cluster.objects.create(name="west", kind="kubernetes")
    for name, address in (("gpu-1", "10.0.0.7"), ("gpu-2", "10.0.0.8")):
        Node.objects.create(cluster=cluster, name=name, uid=name, address=address, seen_at=clock.now())
    Gateway.objects.create(
        cluster=cluster, kind="gateway_api", metrics=MetricsKind.PROMETHEUS,
        settings={"prometheus": {"url": url, "labels": {"cluster": "a"}}},
    )  # fmt: skip
    return BenchmarkRun(
        benchmark=Benchmark(cluster=cluster), environment={"machines": ["gpu-1", "gpu-2"]}, position=1,
        state_since=datetime.fromtimestamp(BEGAN - 3, UTC),
    )  # fmt: skip


@pytest.mark.django_db
def test_what_no_exporter_told_is_taken_from_prometheus(prometheus: tuple[Prometheus, str]) -> None:
    run = run_on(prometheus[1])
    found: Any = with_scraped(run, SYSTEM, datetime.fromtimestamp(BEGAN + 60, UTC))
    series = found["series"]
    assert series["memory gpu-1"] == [600.0] * 61, "of its own cluster"
    assert series["cpu gpu-1"][1:] == [0.75] * 60
    gpu = series["gpu_use gpu-1 0"]
    assert (gpu[0], gpu[20], gpu[59]) == (0.51, 0.52, 0.54), "by the name that dcgm-exporter gives"
    assert gpu[40] is None, "a missed scrape stays a gap"
    assert series["gpu_power gpu-2 0"] == [300.0] * 61, "what an exporter told stays"
    assert series["running"] == SYSTEM["series"]["running"]  # type: ignore[index]


@pytest.mark.django_db
def test_without_prometheus_the_figures_stay_as_they_are(prometheus: tuple[Prometheus, str]) -> None:
    server, url = prometheus
    run = run_on(url)
    server.answers = [(503, b"busy")]
    assert with_scraped(run, SYSTEM, datetime.fromtimestamp(BEGAN + 60, UTC)) == SYSTEM
    Gateway.objects.update(metrics=MetricsKind.WORKERS)
    assert with_scraped(run, SYSTEM, datetime.fromtimestamp(BEGAN + 60, UTC)) == SYSTEM
    local = {"began": BEGAN, "step": 1, "series": {"cpu": [0.5]}}
    assert with_scraped(run, local, datetime.fromtimestamp(BEGAN + 60, UTC)) == local
