"""The process that makes a version of an upload: killed in the midst, and followed by another one."""

from io import BytesIO

import pytest

from model_store.allowance import Allowance
from model_store.backends.local import LocalStore
from model_store.backends.local_upload_buffer import LocalUploadBuffer
from model_store.file_manifest import ManifestFile
from model_store.processes.job import StagingJob
from models_registry.importing.upload import UploadSource
from models_registry.models import UploadContent
from tests.models_registry import builders as b
from tests.models_registry.builders import sha256
from tests.patience import eventually

PART = 64 * 1024 * 1024


def job(store: LocalStore, buffer: LocalUploadBuffer) -> StagingJob:
    source = UploadSource(buffer.directory.name, PART)
    return StagingJob(str(store.root), "7", source, allowance=Allowance("vision", 10, 3))


@pytest.fixture
def buffer(store: LocalStore) -> LocalUploadBuffer:
    """All has come."""
    contents = b.model_files() | {"big.safetensors": b.weights(5_000_000)}
    files = [ManifestFile(path, len(data), sha256(data)) for path, data in contents.items()]
    buffer = LocalUploadBuffer(store.root / "uploads/one", part_bytes=PART)
    waited_for = [UploadContent(sha256=file.sha256, size=file.size, is_known=False) for file in files]
    buffer.begin(files, waited_for)
    for file, content in zip(files, waited_for, strict=True):
        assert buffer.write(content, parts=range(1), body=BytesIO(contents[file.path]))
    return buffer


def test_a_job_reaches_its_process_as_it_was_meant(store: LocalStore, buffer: LocalUploadBuffer) -> None:
    one = job(store, buffer)
    assert StagingJob.from_json(one.as_json(), UploadSource) == one
    spec = one.spec("key", "owner")
    assert spec.argv[2] == "models_registry.importing.upload_import"
    assert (spec.limits.network, spec.environment) == (False, ())


@pytest.mark.stack
def test_what_a_killed_process_has_begun_the_next_one_ends(
    store: LocalStore, buffer: LocalUploadBuffer, jobs
) -> None:
    jobs.start(job(store, buffer))
    eventually(lambda: "7" in store.staging_keys(), every=0.001)
    assert jobs.kill().result is None
    result = jobs.imports(job(store, buffer))
    store.publish("7", result.manifest)
    store.check(result.manifest)
    assert store.blob_path(result.files[0].sha256).stat().st_nlink == 3
