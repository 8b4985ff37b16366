"""Pages of optimised versions: what a person sees of a run, and what bad input is told."""

from typing import Any

import pytest
from django.utils import timezone

from accounts.actors import of_user
from clusters.models import Cluster
from models_registry import references
from models_registry.models import Model, Version, VersionFile
from models_registry.states import VersionState
from optimization.family import family_of
from optimization.models import AccuracyCheck, AccuracyVerdict, OptimizationRun
from optimization.services import cancel_run, start_run
from tests.cast import api, client_of, person, team
from tests.clusters.world import version_of

pytestmark = pytest.mark.django_db

ORDER: dict[str, Any] = {
    "parent": "story:v1",
    "recipe": "local/int8-dynamic",
    "cluster": "local",
    "test": "story:v1/test.jsonl",
}


@pytest.fixture
def ada() -> Any:
    user = person("ada", speech="developer")
    Cluster.objects.get_or_create(name="local", defaults={"kind": "embedded"})
    version = version_of(team("speech"))
    VersionFile.objects.bulk_create(
        VersionFile(version=version, path=path, size=1, sha256="0" * 64, format=format)
        for path, format in (("model.safetensors", "safetensors"), ("test.jsonl", "text"))
    )
    return user


def passed_run(user: Any) -> OptimizationRun:
    """Return a run as its steps leave it."""
    row = start_run(actor=of_user(user), team=team("speech"), **ORDER)
    model = Model.objects.get(name="story")
    child = Version.objects.create(
        model=model, number=2, name="v2", state=VersionState.READY, digest="1" * 64,
        ready_at=timezone.now(), file_count=1, parent=row.parent,
    )  # fmt: skip
    speed = [{"rate": 4.0, "name": "output_rate", "ratio": 1.9, "low": 1.8, "high": 2.0, "is_worse": False}]
    OptimizationRun.objects.filter(pk=row.pk).update(child=child, state="passed", speed=speed)
    check = AccuracyCheck.objects.create(
        run=row,
        items=400,
        sha256="2" * 64,
        size=9,
        worst=[{"text": "A lost one.", "parent": -1, "child": -2}],
    )
    AccuracyVerdict.objects.create(
        check_of=check, metric="perplexity", items=400, parent_value=12.0, child_value=12.1,
        difference=-0.008, low=-0.009, high=-0.007, margin=0.02, p_value=0.001, flip_rate=1.0,
        result="passed",
    )  # fmt: skip
    return OptimizationRun.objects.get(pk=row.pk)


def test_a_run_shows_verdicts_family_and_pareto(ada: Any) -> None:
    row = passed_run(ada)
    browser = client_of(ada)
    shown = browser.get(f"/optimizations/{row.pk}/").content.decode()
    assert "12.100" in shown
    assert "1.90" in shown
    assert "A lost one." in shown
    assert shown.count("pareto-point") == 2
    assert "story:v1" in browser.get("/optimizations/").content.decode()
    assert f"/optimizations/{row.pk}/" in browser.get("/models/story/v2/").content.decode()
    told = api(ada).get(f"optimizations/{row.pk}/").json()["result"]["accuracy"]["verdicts"][0]
    assert round(told["difference"], 2) == -0.80
    assert round(told["margin"], 2) == 2.02


def test_the_form_names_what_fits_and_previews_what_it_needs(ada: Any) -> None:
    browser = client_of(ada)
    assert "local/prune-mlp" in browser.get("/optimizations/+new/?parent=story:v1").content.decode()
    given = {
        **ORDER,
        "team": "speech",
        "margin": "1",
        "gain": "1",
        "engine": "transformers",
        "parameters": "",
    }
    shown = browser.post("/optimizations/+new/", {**given, "preview": "1"}).content.decode()
    assert '<dt>Memory</dt><dd class="num">700' in shown
    assert not OptimizationRun.objects.exists()
    assert browser.post("/optimizations/+new/", given).status_code == 302
    assert OptimizationRun.objects.get().name == "story-v1-int8-dynamic"


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"recipe": "local/none"}, "recipe"),
        ({"parent": "story:v9"}, "parent"),
        ({"test": "story:v1"}, "test"),
        ({"recipe": "local/prune-mlp"}, "calibration"),
        ({"parameters": {"bits": 4}}, "parameters.bits"),
        ({"margin": 0}, "margin"),
        ({"engine": "llama_cpp"}, "engine"),
        ({"cluster": "nowhere"}, "cluster"),
    ],
)
def test_bad_input_is_blamed_on_its_field(ada: Any, wrong: dict[str, Any], field: str) -> None:
    answer = api(ada).post("optimizations/", {"team": "speech", **ORDER, **wrong})
    assert answer.status_code == 400
    assert answer.json()["errors"].keys() == {field}
    assert not OptimizationRun.objects.exists()


def test_several_recipes_are_one_order_whose_page_has_budget_and_family(ada: Any) -> None:
    browser, two = client_of(ada), ["local/int8-dynamic", "local/int2-dynamic"]
    given = {
        "team": "speech", **ORDER, "more_recipes": two, "budget_hours": 3, "margin": 1, "gain": 1,
        "engine": "transformers", "parameters": "", "calibration": "", "name": "",
    }  # fmt: skip
    shown = browser.post("/optimizations/+new/", {**given, "preview": "1"}).content.decode()
    assert all(f'<p class="page-lead">{one}</p>' in shown for one in two)
    assert browser.post("/optimizations/+new/", given).status_code == 302
    first, second = OptimizationRun.objects.order_by("pk")
    assert {first.batch, second.batch} == {"story-v1-batch"}
    shown = browser.get(f"/optimizations/{second.pk}/").content.decode()
    assert f'href="/optimizations/{first.pk}/">local/int8-dynamic</a>' in shown
    assert "/ 3.0 h" in shown
    told = api(ada).get(f"optimizations/{second.pk}/").json()["result"]
    assert [one["recipe"] for one in told["batch"]["runs"]] == two
    assert [one["version"] for one in told["family"]] == ["story:v1"]
    assert len(api(ada).get("optimizations/?batch=story-v1-batch").json()["results"]) == 2

    order = {"team": "speech", **{key: value for key, value in ORDER.items() if key != "recipe"}}
    answer = api(ada).post("optimizations/batch/", {**order, "recipes": two, "name": "again"})
    assert (answer.status_code, answer.json()["batch"], len(answer.json()["runs"])) == (201, "again", 2)


def test_versions_of_a_run_that_is_under_way_are_in_use(ada: Any) -> None:
    row = start_run(actor=of_user(ada), team=team("speech"), **ORDER)
    assert references.uses([row.parent_id]) == {row.parent_id: [f"optimised version {row.name}"] * 2}
    OptimizationRun.objects.update(state="passed")
    assert references.uses([row.parent_id]) == {}


def test_a_family_leaves_out_versions_that_its_reader_may_not_read(ada: Any) -> None:
    row = passed_run(ada)
    other = Model.objects.create(team=team("vision"), name="secret")
    Version.objects.create(
        model=other, number=1, name="v1", state=VersionState.READY, digest="3" * 64, ready_at=timezone.now(),
        file_count=1, parent=row.parent,
    )  # fmt: skip
    shown = [str(one.version) for one in family_of(of_user(ada), row.parent, test_sha256="")]
    assert shown == ["story:v1", "story:v2"]


def test_what_has_ended_cannot_be_cancelled(ada: Any) -> None:
    row = cancel_run(start_run(actor=of_user(ada), team=team("speech"), **ORDER), actor=of_user(ada))
    assert row.state == "cancelling"
    assert api(ada).post(f"optimizations/{passed_run(ada).pk}/cancel/", {}).status_code == 409
