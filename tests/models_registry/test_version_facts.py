"""The facts of a version: kept with it, shown, compared, searched for, and read later where they lack."""

import json
from datetime import timedelta

import pytest

from common.jobs.runners.subprocess import local_runner
from common.jobs.steps import owner
from models_registry import files
from models_registry.errors import VersionFrozen
from models_registry.importing.facts_backfill import read_facts
from models_registry.models import Version
from models_registry.reconcilers.versions import VersionReconciler
from models_registry.selectors import versions
from models_registry.services import catalogue, imports
from tests import cast
from tests.crash.harness import Checkpoints, crashes, die, dies, run_until_rest, worker
from tests.models_registry import builders as b
from tests.patience import eventually

pytestmark = pytest.mark.any_database


def forget_facts(version: Version) -> None:
    """Make the version one that was imported before facts were kept."""
    rows = Version.objects.filter(pk=version.pk)
    super(type(rows), rows).update(facts=None, next_at=version.created_at - timedelta(days=1))


def test_facts_are_kept_with_the_version_and_never_change(version) -> None:
    assert (version.facts["layers"], version.facts["kv_heads"], version.facts["head_dim"]) == (2, 4, 16)
    # 2 x 2 layers x 4 heads x 16 elements x 4 bytes (F32), for 1,000 tokens.
    assert version.facts["memory"] == {
        "weights_bytes": 256,
        "kv_cache_bytes_per_1k_tokens": 1_024_000,
        "kv_cache_dtype": "F32",
    }
    with pytest.raises(VersionFrozen):
        Version.objects.filter(pk=version.pk).update(facts={})
    assert Version.objects.filter(pk=version.pk).fill_in_facts({}) == 0


@pytest.mark.stack
def test_a_version_from_before_gets_its_facts_from_its_files_once(library, version) -> None:
    kept = version.facts
    forget_facts(version)
    library.runner = local_runner()

    def is_over() -> bool:
        library.worker().sweep()
        library.clock.pass_(timedelta(seconds=4))
        version.refresh_from_db()
        return version.next_at is None

    eventually(is_over, every=0.1)
    assert version.facts == kept
    assert (version.job, version.stuck_at) == ("", None)
    assert library.runner.names(owner(version)) == []


def test_facts_are_there_in_the_end_wherever_the_worker_dies(library, version) -> None:
    kept = version.facts
    points = 0
    for point in crashes():
        forget_facts(version)
        if dies(library.worker(Checkpoints(at=point, then=die)), library.clock):
            points += 1
            library.settle()
        version.refresh_from_db()
        assert (version.facts, version.next_at, version.stuck_at) == (kept, None, None)
        if points < point:
            break
    assert points >= 3


def test_facts_that_cannot_be_read_now_are_asked_for_again_later(library, version) -> None:
    forget_facts(version)
    weights = version.files.get(path="model.safetensors")
    blob = library.store.blob_path(weights.sha256)
    away = blob.rename(library.home / "away")
    kernel = worker([VersionReconciler(library.runner)], library.clock)
    kernel.sweep()
    version.refresh_from_db()
    assert (version.facts, version.state, version.attempts) == (None, "ready", 0)
    assert version.next_at - library.clock() > timedelta(minutes=30)
    away.rename(blob)
    library.clock.pass_(timedelta(hours=1))
    run_until_rest(kernel, library.clock)
    version.refresh_from_db()
    assert version.facts["layers"] == 2


def test_the_reading_process_says_what_is_wrong(library, version, tmp_path) -> None:
    found = read_facts(str(tmp_path / "no store"), files.manifest_of(version).files)
    assert "does not hold" in found["problem"]


def test_rest_shows_facts_card_and_lineage_of_a_version(library, api, model) -> None:
    lineage = {"base_model": "hf://acme/base@main", "job": "https://ci.example/7", "data": ["s3://a"], "x": 1}
    made = api.post("models/tiny/versions/", {"source": str(library.directory()), "lineage": lineage})
    library.settle()
    shown = api.get(f"models/tiny/versions/{made.json()['name']}/").json()
    assert shown["lineage"] == {"parent": None, **lineage}
    assert shown["facts"] == Version.objects.get().facts


def test_the_form_of_an_import_asks_where_the_version_comes_from(browser, library, model) -> None:
    given = {
        "source": str(library.directory()),
        "base_model": "hf://acme/base",
        "learned_from": "s3://a\n\nb ",
    }
    assert browser.post("/models/tiny/+import/", given).status_code == 302
    assert Version.objects.get().lineage == {"base_model": "hf://acme/base", "data": ["s3://a", "b"]}


@pytest.mark.parametrize(
    ("lineage", "word"),
    [
        ({"base_model": 7}, "base_model"),
        ({"job": ["a"]}, "job"),
        ({"data": "s3://a"}, "data"),
        ({"data": [1]}, "data"),
        ({"job": "x" * 1_001}, "1,000"),
    ],
)
def test_lineage_of_the_wrong_form_is_refused_with_its_field(library, ada, model, lineage, word) -> None:
    answer = cast.api(ada).post(
        "models/tiny/versions/", {"source": str(library.directory()), "lineage": lineage}
    )
    assert answer.status_code == 400
    assert word in answer.json()["errors"]["lineage"][0]


def test_the_page_shows_memory_lineage_and_the_card_and_links_only_where_it_is_safe(
    browser, library, actor, model
) -> None:
    lineage = {
        "base_model": "hf://acme/base@main",
        "job": "javascript:alert(1)",
        "data": ["https://data.example/<x>", "hf://datasets/acme/q"],
        "trained_by": "job 7",
    }
    library.ready(actor, model, lineage=lineage)
    library.ready(actor, model, "second", b"\2", lineage={"parent": "v1", "base_model": "tiny:v1"})
    page = browser.get("/models/tiny/v1/").content.decode()
    assert '<a href="/models/tiny/v2/">tiny:v2</a>' in page
    assert "1,000\u00a0KiB" in page
    assert 'href="https://huggingface.co/acme/base/tree/main"' in page
    assert 'href="https://huggingface.co/datasets/acme/q"' in page
    assert 'href="https://data.example/&lt;x&gt;"' in page
    assert "javascript:alert(1)" in page
    assert 'href="javascript' not in page
    assert "trained_by" in page
    assert "A small model" in page
    assert "apache-2.0" in page
    second = browser.get("/models/tiny/v2/").content.decode()
    assert second.count('href="/models/tiny/v1/"') >= 2


def test_a_version_is_archived_restored_and_tagged_from_its_page(browser, version) -> None:
    def say(wish: str, **words: str) -> int:
        headers = {"HX-Request": "true"}
        return browser.post(f"/models/tiny/v1/+{wish}/", words, headers=headers).status_code

    assert say("archive", reason="") == 422
    assert say("archive", reason="old") == 204
    page = browser.get("/models/tiny/v1/").content.decode()
    assert "Restore" in page
    assert "All versions are archived" in browser.get("/models/tiny/").content.decode()
    assert 'href="/models/tiny/v1/"' in browser.get("/models/tiny/?state=archived").content.decode()
    assert say("restore", reason="") == 204
    assert say("tags", before="", tags="good, lang=en") == 204
    assert say("tags", before="good lang=en", tags="good") == 204
    assert versions.version_card(version).tags == ("good",)
    assert "good" in browser.get("/models/tiny/").content.decode()


def test_two_versions_are_compared_by_their_facts(browser, library, ada, actor, model, version) -> None:
    held = b.model_files()
    held["config.json"] = json.dumps({**b.CONFIG, "num_hidden_layers": 3}).encode()
    source = b.write(library.root / "deeper", held)
    imports.import_version(actor=actor, model=model, source=str(source))
    library.settle()
    page = browser.get("/models/tiny/+compare/?before=v1&after=v2").content.decode()
    assert '<tr class="differs"><th scope="row">Layers</th><td>2</td><td>3</td></tr>' in page
    assert '<tr class="differs"><th scope="row">KV cache per 1k tokens</th>' in page
    assert '<tr><th scope="row">Heads</th><td>4</td><td>4</td></tr>' in page
    found = cast.api(ada).get("models/tiny/versions/v1/compare/v2/").json()["facts"]
    assert found == [
        {"key": "layers", "change": "changed", "before": 2, "after": 3},
        {
            "key": "memory.kv_cache_bytes_per_1k_tokens",
            "change": "changed",
            "before": 1_024_000,
            "after": 1_536_000,
        },
    ]


def test_models_are_found_by_architecture_format_and_size(browser, api, actor, model, version) -> None:
    catalogue.create_model(actor=actor, team=cast.team("vision"), name="empty")

    def found(query: str) -> list[str]:
        answer = api.get(f"models/?{query}")
        assert answer.status_code == 200, answer.json()
        return [one["name"] for one in answer.json()["results"]]

    assert found("architecture=llamaforcausallm") == ["tiny"]
    assert found("architecture=Llama") == ["tiny"]
    assert found("architecture=Bert") == []
    assert found("format=safetensors&parameters_min=64&parameters_max=64") == ["tiny"]
    assert found("format=gguf") == []
    assert found("parameters_min=65") == found("parameters_max=63") == []
    assert api.get("models/?format=pickle").status_code == 400
    assert api.get("models/?parameters_min=many").status_code == 400
    page = browser.get("/models/?parameters_max=1B&format=safetensors").content.decode()
    assert 'href="/models/tiny/"' in page
    assert 'href="/models/empty/"' not in page
