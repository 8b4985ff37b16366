"""The registry with its store in a bucket, from the import to the last byte reclaimed."""

from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
from django.test import Client

from common.jobs.runners.base import JobRunner
from common.jobs.runners.subprocess import environment_of, local_runner
from model_store import blob_store
from model_store.backends.base import BlobStore
from model_store.backends.opening import opened_at
from model_store.errors import StoreUnavailable
from model_store.file_manifest import FileManifest
from model_store.models import CorruptBlob
from model_store.processes import node_prefetch
from model_store.processes.job import StagingJob, WholeStore
from models_registry import files
from models_registry.errors import FilesUnderWay, NotFetched
from models_registry.models import Version
from models_registry.services import imports, versions
from tests import cast
from tests.contracts.store_rigs import BucketRig
from tests.model_store.test_checking import checked, weights_of
from tests.models_registry import builders as b
from tests.models_registry.conftest import Library
from tests.patience import eventually

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]


@pytest.fixture
def rig(s3, library: Library, settings) -> BucketRig:
    """A bucket, and an installation that keeps its models there."""
    rig = BucketRig(s3, Path(settings.SLIPWAY_STORE_DIR))
    settings.SLIPWAY_STORE = f"s3://{rig.bucket}/slipway/"
    settings.SLIPWAY_STORE_ENDPOINT = s3.url
    settings.SLIPWAY_STORE_PATH_STYLE = True
    return rig


@pytest.fixture
def version(rig, library, actor, model) -> Version:
    return library.ready(actor, model)


def brought(version: Version) -> Path:
    """Its directory, once the process that fetches it is done."""
    found: list[Path] = []

    def is_here() -> bool:
        try:
            found.append(files.materialise(version))
        except FilesUnderWay:
            return False
        return True

    eventually(is_here, every=0.2)
    return found[0]


@pytest.mark.slow
def test_a_version_is_imported_fetched_checked_repaired_and_reclaimed(rig, library, actor, version) -> None:
    with pytest.raises(FilesUnderWay, match="on their way to this node: 0 of"):
        files.materialise(version)
    directory = brought(version)
    names = {path.name: path.read_bytes() for path in directory.iterdir()}
    assert names == {name: content for name, content in b.model_files().items() if name in names}
    assert len(names) == version.file_count == 5
    assert checked(library).damaged == 0

    rig.spoil(weights_of(version), b"not what it was")
    check = checked(library)
    corrupt_blob = CorruptBlob.objects.get()
    assert (check.damaged, corrupt_blob.state) == (1, "repaired")
    assert corrupt_blob.reason == "From the source of tiny:v1."
    assert checked(library).damaged == 0
    aside = [key for key in rig.server.keys(rig.bucket) if "/quarantine/" in key]
    assert [key.split("/")[-1][:64] for key in aside] == [corrupt_blob.sha256]

    rig.server.client.delete_object(Bucket=rig.bucket, Key=rig.body_key(weights_of(version)))
    assert checked(library).damaged == 1
    assert checked(library).damaged == 0

    versions.delete_version(actor=actor, version=version)
    library.settle()
    collected = library.collect()
    assert (collected.deleted_blobs, collected.deleted_bytes) == (5, version.size_bytes)
    assert list(rig.store.walk()) == []
    assert rig.store.staging_keys() == []
    assert rig.store.materialised() == {}


def test_a_node_without_room_gives_up_what_nobody_serves(
    rig, library, actor, model, version, settings, monkeypatch
) -> None:
    def bring_here(runner: JobRunner, store: BlobStore, manifest: FileManifest) -> str:
        store.materialise(manifest)
        return ""

    monkeypatch.setattr(node_prefetch, "start", bring_here)
    second = library.ready(actor, model, "other", fill=b"\x02")
    settings.SLIPWAY_STORE_CACHE_BYTES = version.size_bytes
    brought(version)
    brought(second)
    assert list(rig.store.materialised()) == [second.digest]


@pytest.mark.slow
def test_why_a_version_does_not_come_is_said_and_it_is_tried_again(rig, version, monkeypatch) -> None:
    monkeypatch.setattr(node_prefetch, "RETRY_AFTER_SECONDS", 0.5)
    body = rig.body_key(weights_of(version))
    content = rig.server.client.get_object(Bucket=rig.bucket, Key=body)["Body"].read()
    rig.server.client.delete_object(Bucket=rig.bucket, Key=body)
    with pytest.raises(NotFetched, match=r"of model.safetensors .* is gone"):
        brought(version)
    rig.server.client.put_object(Bucket=rig.bucket, Key=body, Body=content)

    def comes() -> bool:
        with suppress(NotFetched):
            return brought(version).is_dir()
        return False

    eventually(comes, every=0.2)


def test_the_store_page_says_where_the_store_is_and_that_it_is_out_of_reach(rig, version, settings) -> None:
    root, keeper = cast.person("root", superuser=True), Client()
    keeper.force_login(root)
    api = cast.api(root)
    assert f"s3://{rig.bucket}/slipway/" in keeper.get("/models/+store/").content.decode()
    assert api.call("GET", "store/").json()["kind"] == "bucket"
    assert "store" in keeper.get("/readyz").json()["parts"]
    settings.SLIPWAY_STORE = "s3://nowhere/"
    shown = keeper.get("/models/+store/")
    assert "There is no bucket nowhere" in shown.content.decode()
    assert api.call("GET", "store/").json()["problem"].startswith("There is no bucket nowhere")
    with pytest.raises(StoreUnavailable):
        opened_at(blob_store.store().address).staging_keys()


def test_the_importing_process_finds_its_way_to_the_bucket_and_learns_no_other_secret(
    rig, library, actor, model, monkeypatch
) -> None:
    monkeypatch.setenv("SLIPWAY_SECRET_KEY", "x" * 40)
    library.runner = local_runner()
    version = imports.import_version(actor=actor, model=model, source=str(library.directory()))

    def is_over() -> bool:
        library.worker().sweep()
        library.clock.pass_(timedelta(seconds=4))
        return Version.objects.get(pk=version.pk).state != "importing"

    eventually(is_over, every=0.2)
    assert Version.objects.get(pk=version.pk).state == "ready"
    in_bucket, in_directory = (
        environment_of(StagingJob(store, "1", WholeStore(1)).spec("key", "owner"))
        for store in (blob_store.store().address, "/var/models")
    )
    assert in_bucket["AWS_SECRET_ACCESS_KEY"] == "test-secret"
    assert not [name for name in in_directory if name.startswith(("AWS_", "SLIPWAY_"))]
    assert "SLIPWAY_SECRET_KEY" not in in_bucket
