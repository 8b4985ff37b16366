"""What may be ordered: over REST, on the page, by whom; and what is refused by the name of its field."""

from typing import Any

import pytest
from django.utils import timezone

from benchmarks.constraints import BadConstraint, holds
from benchmarks.models import Benchmark, BenchmarkCell
from benchmarks.spec import SpecFaults, iter_cells, spec_of
from clusters.models import Cluster, Gpu, Node
from gpu_health.states import IncidentState
from images.models import RuntimeImage
from tests.cast import api, client_of, person, team
from tests.clusters.world import version_of
from tests.gpu_health.test_domains import incident

SPEC: dict[str, Any] = {
    "versions": ["story:v1"],
    "space": {
        "engines": ["transformers"],
        "parameters": {"slots": [2, 4, 8], "threads": {"least": 1, "most": 4, "factor": 2}},
        "constraints": ["slots * threads <= 8"],
    },
}


@pytest.fixture
def rest(db: None) -> Any:
    Cluster.objects.get_or_create(name="local", defaults={"kind": "embedded"})
    version_of(team("speech"))
    return api(person("ada", speech="developer"))


def order(**changes: Any) -> dict[str, Any]:
    given = {"name": "slots", "team": "speech", "cluster": "local", "scenario": {"rates": [2]}, "spec": SPEC}
    return {**given, **changes}


def test_a_space_is_its_values_ranges_and_constraints() -> None:
    cells = list(iter_cells(spec_of(SPEC)))
    pairs = {(one.parameters["slots"], one.parameters["threads"]) for one in cells}
    assert pairs == {(2, 1), (2, 2), (2, 4), (4, 1), (4, 2), (8, 1)}
    assert len({one.digest for one in cells}) == len(cells)


def test_each_engine_has_the_parameters_that_it_knows() -> None:
    space = {
        "engines": ["transformers", "vllm"],
        "parameters": {"slots": [2, 4], "threads": [1, 2], "vllm.enforce_eager": [True]},
        "constraints": ["threads == 2 or slots == 2"],
    }
    cells = [(one.engine, dict(one.parameters)) for one in iter_cells(spec_of({**SPEC, "space": space}))]
    assert cells == [
        ("transformers", {"slots": 2, "threads": 1}),
        ("transformers", {"slots": 2, "threads": 2}),
        ("transformers", {"slots": 4, "threads": 2}),
        ("vllm", {"slots": 2, "enforce_eager": True}),
        ("vllm", {"slots": 4, "enforce_eager": True}),
    ]


def test_constraints_are_no_programs() -> None:
    assert holds("engine == 'vllm' and slots in (2, 4)", {"engine": "vllm", "slots": 4})
    for text in (
        "__import__('os').system('true')",
        "slots.real",
        "(lambda: 1)()",
        "nothing > 1",
        "'a' * 9 ** 9",
    ):
        with pytest.raises(BadConstraint):
            holds(text, {"slots": 1})


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({**SPEC, "versions": []}, "versions"),
        ({**SPEC, "space": {"parameters": {"flux": [1]}}}, "space.parameters.flux"),
        ({**SPEC, "space": {"parameters": {"vllm.seed": [1]}}}, "space.parameters.vllm.seed"),
        ({**SPEC, "space": {"parameters": {"slots": []}}}, "space.parameters.slots"),
        ({**SPEC, "space": {"parameters": {"threads": [-1]}}}, "space.parameters.threads"),
        ({**SPEC, "space": {"constraints": ["engine == 'vllm'"]}}, "space.constraints"),
        ({**SPEC, "space": {"constraints": "slots < 8"}}, "space.constraints"),
        ({**SPEC, "space": {"engines": [["vllm"]]}}, "space.engines"),
        ({**SPEC, "space": {"parameters": {"slots": {"least": 1, "most": 8}}}}, "space.parameters.slots"),
        ({**SPEC, "space": {"parameters": {
            name: list(range(1, 61)) for name in ("slots", "threads", "max_tokens", "prefill_tokens")
        }}}, "space"),
        ({**SPEC, "budget": {"gpu_hours": 0}}, "budget.gpu_hours"),
        ({**SPEC, "objective": {"kind": "speed"}}, "objective.kind"),
        ({**SPEC, "repeats": 0}, "repeats"),
        ({**SPEC, "colour": 1}, "colour"),
    ],
)  # fmt: skip
def test_a_spec_that_cannot_be_meant_is_refused_by_its_field(spec: dict[str, Any], field: str) -> None:
    with pytest.raises(SpecFaults) as refused:
        spec_of(spec)
    assert field in refused.value.fields


def test_rest_previews_begins_and_cancels(rest: Any) -> None:
    plan = rest.post("benchmarks/preview/", {k: v for k, v in order().items() if k != "name"}).json()
    assert (plan["cells"], plan["runs"], plan["price"]) == (6, 30, None)
    assert not Benchmark.objects.exists()

    made = rest.post("benchmarks/", order())
    assert made.status_code == 201, made.content
    pk = made.json()["id"]
    told = rest.get(f"benchmarks/{pk}/").json()
    assert len(told["result"]["cells"]) == 6
    assert told["result"]["schema"] == 1
    assert rest.post("benchmarks/", order()).status_code == 409, "the name is taken"
    assert rest.post(f"benchmarks/{pk}/cancel/", {}).json()["state"] == "cancelling"
    assert rest.post(f"benchmarks/{pk}/cancel/", {}).status_code == 409
    one, other = BenchmarkCell.objects.filter(benchmark=pk)[:2]
    assert rest.get(f"benchmarks/{pk}/compare/{one.pk}/{other.pk}/").json()["figures"] == []


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"cluster": "moon"}, "cluster"),
        ({"scenario": {"targets": {"ttft_ms": 0}}}, "scenario.targets.ttft_ms"),
        ({"spec": {**SPEC, "versions": ["story:v9"]}}, "versions"),
        ({"spec": {**SPEC, "space": {"images": ["none"]}}}, "space.images"),
    ],
)
def test_rest_refuses_by_the_name_of_the_field(rest: Any, changes: dict[str, Any], field: str) -> None:
    refused = rest.post("benchmarks/", order(**changes))
    assert refused.status_code == 400
    assert field in refused.json()["errors"]
    assert not Benchmark.objects.exists()


def test_cells_that_an_image_cannot_run_are_refused_before_anything_starts(rest: Any) -> None:
    RuntimeImage.objects.create(
        name="awq-only",
        repository="registry.example/vllm",
        digest=f"sha256:{'a' * 64}",
        engine="vllm",
        formats=["gguf"],
        created_by="test",
    )
    space = {"engines": ["transformers"], "images": ["awq-only"]}
    refused = rest.post("benchmarks/", order(spec={**SPEC, "space": space}))
    assert refused.status_code == 400
    assert "is an image of vllm" in refused.content.decode()


def test_nothing_starts_on_cordoned_machines_or_beyond_the_quota(rest: Any, settings: Any) -> None:
    cluster = Cluster.objects.get(name="local")
    node = Node.objects.create(cluster=cluster, uid="n", name="n", seen_at=timezone.now(), is_cordoned=True)
    refused = rest.post("benchmarks/", order())
    assert "cluster" in refused.json()["errors"]
    Node.objects.filter(pk=node.pk).update(is_cordoned=False)
    Gpu.objects.create(cluster=cluster, node=node, uuid="g", index=0, name="NVIDIA H100")
    settings.SLIPWAY_BENCHMARK_GPU_HOURS = 0.01
    refused = rest.post("benchmarks/", order())
    assert "budget.gpu_hours" in refused.json()["errors"]
    assert rest.post("benchmarks/", order(spec={**SPEC, "device": "cpu"})).status_code == 201


def test_nothing_starts_on_kinds_without_machines_or_under_an_incident(rest: Any) -> None:
    cluster = Cluster.objects.get(name="local")
    good, bad = (
        Node.objects.create(
            cluster=cluster, uid=name, name=name, seen_at=timezone.now(), labels={"gpu": name}
        )
        for name in ("good", "bad")
    )
    incident(bad, state=IncidentState.PROPOSED)

    def refusal(**kinds: str) -> dict[str, Any]:
        space = {**SPEC["space"], "machines": {name: {"gpu": label} for name, label in kinds.items()}}
        made = rest.post("benchmarks/", order(spec={**SPEC, "space": space}, name="-".join(kinds)))
        return made.json().get("errors", {})

    assert "under an incident" in refusal(kept="good", hurt="bad")["space.machines.hurt"][0]
    assert "no machine" in refusal(lost="none")["space.machines.lost"][0]
    assert refusal(kept="good") == {}
    Node.objects.filter(pk=good.pk).update(is_cordoned=True)
    assert "cordoned" in refusal(again="good")["space.machines.again"][0]


def test_viewers_look_and_do_not_begin(rest: Any) -> None:
    viewer = api(person("vi", speech="viewer"))
    assert viewer.post("benchmarks/", order()).status_code == 403
    pk = rest.post("benchmarks/", order()).json()["id"]
    assert viewer.get(f"benchmarks/{pk}/").status_code == 200
    assert api(person("eve", vision="developer")).get(f"benchmarks/{pk}/").status_code == 404


def test_the_page_previews_and_begins(rest: Any) -> None:
    browser = client_of(person("bo", speech="developer"))
    version = version_of(team("speech"))
    form = {
        "name": "by-page", "team": "speech", "version": version.pk, "cluster": "local",
        "engine": "transformers",
        "parameters": "slots: 2 4\nthreads: 1", "arrivals": "poisson", "rates": "1 2", "requests": 60,
        "input_tokens": 32, "output_tokens": 8, "share": 0.95, "objective": "goodput", "strategy": "grid",
        "load_engine": "builtin", "repeats": 5,
    }  # fmt: skip
    shown = browser.post("/benchmarks/+new/", {**form, "preview": "1"})
    assert ">10<" in shown.content.decode().replace(" ", ""), "two cells, five repeats"
    refused = browser.post("/benchmarks/+new/", {**form, "parameters": "flux: 1"})
    assert refused.status_code == 422
    browser.post("/benchmarks/+new/", form)
    row = Benchmark.objects.get(name="by-page")
    page = browser.get(f"/benchmarks/{row.pk}/").content.decode()
    assert ">slots</th>" in page
    assert "by-page" in browser.get("/benchmarks/").content.decode()
    assert browser.get(f"/benchmarks/{row.pk}/+compare/").status_code == 200
