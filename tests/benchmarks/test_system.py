"""System figures each second, their series and charts, and the Pareto front."""

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from benchmarks.load.scenario import LoadScenario
from benchmarks.load.system import SystemReader, SystemSources, sampling
from benchmarks.load.system_series import series_of
from benchmarks.models import BenchmarkRun
from benchmarks.pareto import front, pareto_chart, pareto_points
from benchmarks.selectors import CellEstimate
from benchmarks.statistics import MeanEstimate
from benchmarks.system_panel import system_charts
from tests.benchmarks.scripted_server import ScriptedServer, scripted_server

EXPORTED = b"""
node_memory_MemTotal_bytes 1000
node_memory_MemAvailable_bytes 400
node_cpu_seconds_total{cpu="0",mode="idle"} 50
node_cpu_seconds_total{cpu="0",mode="user"} 5
DCGM_FI_DEV_GPU_UTIL{gpu="0"} 87
DCGM_FI_DEV_GPU_UTIL{gpu="1"} 12
DCGM_FI_DEV_FB_USED{gpu="0"} 2
vllm:num_requests_running{model_name="a"} 3
"""


def test_exporters_and_servers_are_read_and_one_that_does_not_answer_tells_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ScriptedServer, "_metrics", lambda self: EXPORTED)
    with scripted_server() as server:
        exporters = {f"{server.url}/metrics": "node-1", "http://127.0.0.1:9/metrics": "node-2"}
        found = SystemReader(SystemSources(servers=[server.url], exporters=exporters)).read()
    assert found == {
        "running": 3,
        "memory node-1": 600,
        "gpu_use node-1 0": 0.87,
        "gpu_use node-1 1": 0.12,
        "gpu_memory node-1 0": 2 * 2**20,
    }, "a share of CPU needs two looks"


@pytest.mark.process
def test_a_process_of_its_own_samples_this_machine_each_second(tmp_path: Path) -> None:
    with (
        scripted_server() as server,
        sampling(SystemSources(servers=[server.url], is_local=True), tmp_path) as sampled,
    ):
        until = time.monotonic() + 20
        while len(sampled()) < 3 and time.monotonic() < until:
            time.sleep(0.2)
        found = sampled()
    assert found[-1]["values"]["memory"] > 0
    assert "worker_cpu" in found[-1]["values"], "the server is a process of this machine"
    assert not list(tmp_path.iterdir())


def test_seconds_without_a_sample_stay_gaps() -> None:
    samples = [{"at": at, "values": {"cpu": at - 100}} for at in (100.0, 101.2, 104.0)]
    samples[2]["values"] = {"memory": 5.0}
    assert series_of(samples) == {
        "began": 100.0,
        "step": 1,
        "series": {"cpu": [0, 1.2, None, None, None], "memory": [None] * 4 + [5.0]},
    }
    long = series_of([{"at": float(at), "values": {"cpu": 1.0}} for at in range(3600)])
    assert (long["step"], len(long["series"]["cpu"])) == (6, 600)


def test_charts_share_one_axis_of_time_with_the_windows_marked() -> None:
    run = BenchmarkRun(environment={"windows": [{"rate": 4.0, "began_at": 1002.0}]})
    gpus = {f"gpu_use n {number}": [0.1 * number, None, 0.5] for number in range(8)}
    system = {"began": 1000.0, "step": 1, "series": {"cpu": [0.5, None, 1.0], **gpus}}
    cpu, gpu = system_charts(run, system, LoadScenario())
    assert [cpu.moments, cpu.marks] == [gpu.moments, gpu.marks]
    assert cpu.marks[0].at == datetime.fromtimestamp(1002, UTC)
    assert list(cpu.series[0].values) == [0.5, None, 1.0]
    assert len(gpu.series) == 3, "mean, lowest and highest of eight GPUs"
    assert gpu.series[0].values[1] is None


def estimate(rate: float, **figures: float) -> list[CellEstimate]:
    return [
        CellEstimate(rate, name, "", MeanEstimate(value, None, None, 5)) for name, value in figures.items()
    ]


def test_the_front_is_what_nothing_beats_in_both() -> None:
    cells = {
        1: estimate(1, ttft_p95=100, ttft_p50=50, output_rate=10) + estimate(4, ttft_p50=90, output_rate=30),
        2: estimate(1, ttft_p95=80, ttft_p50=40, output_rate=12) + estimate(4, ttft_p50=120, output_rate=25),
    }
    latency, worth, points = pareto_points(cells)
    assert (latency, worth) == ("ttft_p50", "output_rate"), "what all have; no price is set"
    assert [one.latency for one in points] == [40, 50, 90, 120]
    assert front(points, lower_is_better=False) == [12, 12, 30, 30]
    chart = pareto_chart(cells, {1: "slots=1", 2: "slots=4"}, {1: "candidate", 2: "stable"})
    assert [series.tag for series in chart.series] == ["1", "2", ""], "told apart without colours"
    assert list(chart.series[0].values) == [None, 10, 30, None]
    prices = estimate(1, price_per_million_tokens=2) + estimate(4, price_per_million_tokens=1)
    priced = {cell: some + prices for cell, some in cells.items()}
    assert pareto_points(priced)[1] == "price_per_million_tokens"
