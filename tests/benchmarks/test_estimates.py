"""AIConfigurator as the prior of a staged search: what it is asked, and what becomes of its answers."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from accounts.actors import of_user
from benchmarks.estimate_orders import system_of
from benchmarks.estimates import __main__ as program
from benchmarks.models import Benchmark
from benchmarks.reconcilers.benchmarks import BenchmarkReconciler
from benchmarks.services import cancel_benchmark, create_benchmark
from benchmarks.states import BenchmarkState
from clusters.models import Cluster, Gpu, Node
from common.errors import Invalid
from common.jobs.runners.fake import FakeRunner
from common.jobs.spec import JobSpec
from common.reconcile import Reconciler
from models_registry.models import Version
from models_registry.states import VersionState
from tests.cast import person
from tests.clusters.world import Scene

LLAMA_8B = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096,
    "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "vocab_size": 128256,
    "max_position_embeddings": 131072, "torch_dtype": "bfloat16",
}  # fmt: skip
SPACE = {
    "engines": ["vllm", "tgi"],
    "parameters": {"slots": [8, 64], "tensor_parallel_size": [1, 2]},
}


class EstimateScene(Scene):
    def __init__(self) -> None:
        super().__init__()
        self.runner = FakeRunner()
        self.actor = of_user(person("ada", vision="developer"))
        memory = {"weights_bytes": 16e9, "kv_cache_bytes_per_1k_tokens": 131_072_000}
        Version.objects.create(
            model=self.version.model, number=2, name="v2", state=VersionState.READY, digest="1" * 64,
            file_count=1, ready_at=timezone.now(), facts={"config": LLAMA_8B, "memory": memory},
        )  # fmt: skip
        cluster = Cluster.objects.get(name="local")
        node = Node.objects.create(cluster=cluster, uid="n", name="n", seen_at=timezone.now())
        for index in range(2):
            Gpu.objects.create(
                cluster=cluster, node=node, uuid=f"g{index}", index=index, name="NVIDIA H100 80GB HBM3",
                memory_bytes=80 * 10**9,
            )  # fmt: skip

    def reconcilers(self) -> list[Reconciler[Any]]:
        return [BenchmarkReconciler(self.runner)]

    def begin(self, **spec: Any) -> Benchmark:
        return create_benchmark(
            actor=self.actor, team=self.team, name="prior", cluster="local",
            scenario={"rates": [1], "input": 1000, "output": 200, "targets": {"tpot_ms": 20}},
            spec={"versions": ["story:v2"], "space": SPACE, "strategy": "staged"}
            | {"prior": "aiconfigurator"} | spec,
        )  # fmt: skip


@pytest.fixture
def scene(db: None) -> EstimateScene:
    return EstimateScene()


def answering(
    answer: Callable[[Mapping[str, Any]], Mapping[str, Any]],
) -> Callable[[JobSpec], Mapping[str, Any]]:
    """A program of the job that answers each order so."""

    def asked(spec: JobSpec) -> Mapping[str, Any]:
        rates = {one["key"]: told["rate"] for one in orders_in(spec) if "rate" in (told := answer(one))}
        return {"by": program.NAME, "rates": rates, "refused": {}}

    return asked


def orders_in(spec: JobSpec) -> list[Mapping[str, Any]]:
    return list(json.loads(spec.stdin)["orders"])


def priors(row: Benchmark, engine: str) -> dict[tuple[int, int], float | None]:
    cells = row.cells.filter(engine=engine)
    return {
        (one.parameters["slots"], one.parameters.get("tensor_parallel_size", 1)): one.prior for one in cells
    }


def test_its_answers_order_the_configurations_that_it_knows(scene: EstimateScene) -> None:
    scene.runner.program = answering(lambda order: {"rate": order["slots"] / order["gpus"]})
    row = scene.begin()
    roofline = priors(row, "tgi")
    scene.pass_(5)
    row.refresh_from_db()
    (job,) = scene.runner.started
    assert {(one["system"], one["engine"], one["input"], one["tpot_ms"]) for one in orders_in(job)} == {
        ("h100_sxm", "vllm", 1000, 20)
    }
    assert priors(row, "vllm") == {(8, 1): 8, (8, 2): 4, (64, 1): 64, (64, 2): 32}
    assert priors(row, "tgi") == roofline, "it knows no TGI"
    assert (row.estimates or {})["cells"] == 4
    first = row.runs.order_by("position").first()
    assert first is not None
    assert first.cell.prior == 64
    assert not scene.runner.jobs


def test_the_roofline_stands_where_it_cannot_be_asked(scene: EstimateScene) -> None:
    scene.runner.program = lambda _spec: {"failed": "AIConfigurator cannot be installed: no index"}
    row = scene.begin()
    before = priors(row, "vllm")
    scene.pass_(5)
    row.refresh_from_db()
    assert "no index" in (row.estimates or {})["failed"]
    assert priors(row, "vllm") == before
    assert row.runs.exists()


def test_cancelling_ends_the_estimates(scene: EstimateScene) -> None:
    row = scene.begin()
    scene.pass_(3)
    assert scene.runner.live
    cancel_benchmark(row, actor=scene.actor)
    scene.pass_(5)
    row.refresh_from_db()
    assert row.state == BenchmarkState.CANCELLED
    assert not scene.runner.jobs


@pytest.mark.parametrize(
    "spec",
    [
        {"strategy": "grid"},
        {"device": "cpu"},
        {"space": {"engines": ["tgi"]}},
        {"prior": "oracle"},
    ],
)
def test_it_is_asked_only_where_it_is_of_use(scene: EstimateScene, spec: dict[str, Any]) -> None:
    with pytest.raises(Invalid) as refused:
        scene.begin(**spec)
    assert "prior" in refused.value.fields


def test_gpus_have_its_names() -> None:
    names = ("NVIDIA H100 80GB HBM3", "NVIDIA A100-PCIE-40GB", "NVIDIA L40S", "NVIDIA GB200", "Tesla T4")
    assert [system_of(name) for name in names] == ["h100_sxm", "a100_pcie", "l40s", "gb200", ""]


@pytest.mark.slow
def test_aiconfigurator_itself_tells_more_gpus_and_larger_batches_apart(environments: Path) -> None:
    """Its environment is made where there is none: 670 MB from a package index."""
    common = {
        "model": "8b", "engine": "vllm", "kv": None, "stages": 1, "expert_parallel": False, "input": 1000,
        "output": 200, "ttft_ms": None,
    }  # fmt: skip

    def order(
        key: str, *, system: str = "h100_sxm", gpus: int = 1, slots: int = 64, tpot_ms: Any = None
    ) -> Any:
        return {**common, "key": key, "system": system, "gpus": gpus, "slots": slots, "tpot_ms": tpot_ms}

    orders = [
        order("one"), order("two", gpus=2), order("few", slots=8), order("bounded", tpot_ms=10),
        order("never", tpot_ms=0.01), order("unknown", system="abacus"),
    ]  # fmt: skip
    found = program.estimate(
        {"environments": str(environments), "models": {"8b": LLAMA_8B}, "orders": orders}, lambda _told: None
    )
    rates = found["rates"]
    assert rates["few"] < rates["one"] < rates["two"] < 2.2 * rates["one"]
    assert 0 < rates["bounded"] < rates["one"], "a smaller batch, which keeps the target"
    assert rates["never"] == 0
    assert "abacus" in str(found["refused"])
