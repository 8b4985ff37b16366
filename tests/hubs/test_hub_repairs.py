"""Damaged files of versions that hubs have brought: fetched again from the commit that they came from."""

from datetime import timedelta

import pytest

from common.actor import Actor
from hubs.models import HubSource
from hubs.services import syncs
from hubs.states import HubKind
from model_store import blob_store
from model_store import services as model_store
from model_store.models import CorruptBlob
from model_store.reconcilers.checks import StoreCheckReconciler
from model_store.reconcilers.corrupt_blobs import CorruptBlobReconciler
from model_store.services import begin_check
from models_registry import files
from models_registry.models import Version
from tests.crash.harness import run_until_rest, worker
from tests.models_registry import builders as b
from tests.models_registry.conftest import REPO

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]


@pytest.fixture
def kind() -> str:
    return HubKind.HUGGINGFACE


@pytest.fixture
def version(hubs, actor, model, kind) -> Version:
    """A version that was synced by a token, and whose branch has moved on since."""
    hubs.server.tokens[REPO] = {"hf_ok"}
    made = syncs.create_hub_source(
        actor=actor, model=model, repo_id=REPO, revision="main", kind=kind, token="hf_ok"
    )
    synced = hubs.synced(made, actor).version
    hubs.server.repository(REPO).commit(b.model_files(b"\x02"))
    hubs.server.sent.clear()
    return synced


def lose(hubs, version: Version, path: str) -> str:
    """Damage a stored file, and let a check find it and do what can be done."""
    sha256 = version.files.get(path=path).sha256
    blob = hubs.library.store.blob_path(sha256)
    blob.chmod(0o644)
    blob.write_bytes(b"\xff" * blob.stat().st_size)
    begin_check(actor=Actor.system("test"))
    settle(hubs)
    return sha256


def settle(hubs) -> None:
    runner = hubs.library.runner
    kernel = worker([StoreCheckReconciler(runner), CorruptBlobReconciler(runner)], hubs.library.clock)
    run_until_rest(kernel, hubs.library.clock, tick=timedelta(seconds=4))


@pytest.mark.parametrize("kind", HubKind.values)
@pytest.mark.parametrize("path", ["model.safetensors", "config.json"])
def test_a_damaged_file_comes_back_from_the_commit_that_it_came_from(hubs, version, path) -> None:
    lose(hubs, version, path)
    corrupt_blob = CorruptBlob.objects.get()
    assert (corrupt_blob.state, corrupt_blob.reason) == ("repaired", "From the source of tiny:v1.")
    blob_store.store().check(files.manifest_of(version))
    with blob_store.store().opened(corrupt_blob.sha256) as content:
        assert content.read_at(0, content.size) == b.model_files()[path]
    assert hubs.library.store.staging_keys() == []
    # What the store still has does not come again.
    assert set(hubs.server.sent) == {path}


@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        (lambda server: server.repository(REPO).commits.clear(), "has no revision"),
        pytest.param(
            lambda server: server.repositories.clear(),
            "There is no repository acme/tiny",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            lambda server: server.faults.answers.extend([(500, {})] * 99),
            "a fault of its own (HTTP 500).",
            marks=pytest.mark.slow,
        ),
        (lambda server: setattr(server.faults, "damage", b"\x00" * 999), "does not have the content"),
    ],
)  # fmt: skip
def test_a_hub_that_gives_it_no_more_is_named_and_may_be_asked_again(
    hubs, actor, version, prepare, words
) -> None:
    server = hubs.server
    server.repository(REPO).commit(b.model_files() | {"model.safetensors": b.weights(5_000)})
    version = hubs.synced(HubSource.objects.get(), actor).version
    kept, commits = dict(server.repositories), dict(server.repository(REPO).commits)
    prepare(server)
    lose(hubs, version, "model.safetensors")
    corrupt_blob = CorruptBlob.objects.get()
    assert corrupt_blob.state == "lost"
    assert corrupt_blob.reason.startswith("Not from the source of tiny:v2: ")
    assert words in corrupt_blob.reason
    assert "is kept" not in corrupt_blob.reason
    assert hubs.library.store.staging_keys() == []
    server.repositories, server.faults = kept, type(server.faults)()
    server.repository(REPO).commits = commits
    model_store.retry_repair(actor=Actor.system("test"), corrupt_blob=corrupt_blob)
    settle(hubs)
    assert CorruptBlob.objects.get().state == "repaired"


def test_a_source_that_is_followed_no_longer_has_no_token_to_give(hubs, actor, version) -> None:
    syncs.delete_hub_source(actor=actor, source=HubSource.objects.get())
    lose(hubs, version, "model.safetensors")
    assert CorruptBlob.objects.get().state == "lost"
    assert "it needs a token" in CorruptBlob.objects.get().reason
