"""An upload whose parts come to two hosts with one bucket, and what dies on its way."""

import itertools
from collections.abc import Callable
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from model_store import blob_store
from model_store.backends.bucket.upload_buffer import BucketUploadBuffer
from models_registry import files
from models_registry.importing.upload import UploadSource, take_upload
from models_registry.models import Upload, UploadContent, Version
from models_registry.services import uploads
from models_registry.services import versions as version_services
from tests.contracts.store_rigs import BucketRig
from tests.crash.harness import Checkpoints, Crash, die, dies
from tests.models_registry import builders as b
from tests.models_registry.test_upload_crashes import CONTENTS, Dying
from tests.models_registry.test_uploads import PART, Uploader, announced

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]


class Hosts:
    """Two homes; whoever asks next is of the other one."""

    def __init__(self, settings: Any, homes: Path) -> None:
        self._settings, self._homes = settings, homes
        self._names = itertools.cycle(("prague", "brno"))

    def next(self) -> None:
        self._settings.SLIPWAY_STORE_DIR = self._homes / next(self._names) / "models"

    def left_on_their_disks(self) -> list[Path]:
        return [path for path in self._homes.rglob("uploads/**/*") if path.is_file()]


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch) -> None:
    monkeypatch.setattr("model_store.upload_buffer.BUCKET_PART_BYTES", PART)


@pytest.fixture
def hosts(s3, library, settings, tmp_path) -> Hosts:
    rig = BucketRig(s3, tmp_path / "node")
    settings.SLIPWAY_STORE = f"s3://{rig.bucket}/slipway/"
    settings.SLIPWAY_STORE_ENDPOINT = s3.url
    settings.SLIPWAY_STORE_PATH_STYLE = True
    made = Hosts(settings, tmp_path / "hosts")
    made.next()
    return made


def left_in_the_bucket() -> set[str]:
    """Return the folders of uploads."""
    buffers = BucketUploadBuffer.at(blob_store.store().address, "", part_bytes=1)
    return set(buffers._bucket.folders("uploads/"))


def stored() -> set[str]:
    return {sha for _, blobs in blob_store.store().walk() for sha in blobs}


def test_parts_that_come_to_two_hosts_by_turns_become_a_version(hosts, library, model, api) -> None:
    uploader = Uploader(api, b.model_files())
    assert uploader.begun["part_bytes"] == PART
    for content, data in uploader.contents.items():
        for start in reversed(range(0, len(data), PART)):
            hosts.next()
            assert uploader.put(content, start).status_code == 200
            assert uploader.put(content, start).status_code == 200
    hosts.next()
    assert uploader.missing == set()
    assert uploader.complete().status_code == 202
    hosts.next()
    library.settle()
    version = api.get("models/tiny/versions/v1/").json()
    assert version["state"] == "ready", version["reason"]
    assert stored() == set(uploader.contents)
    assert left_in_the_bucket() == set()
    assert hosts.left_on_their_disks() == []


def test_a_lie_begins_anew_wherever_it_is_found(hosts, library, model, api, monkeypatch) -> None:
    uploader = Uploader(api, b.model_files())
    content = max(uploader.contents, key=lambda one: len(uploader.contents[one]))
    for is_found_at_once in (True, False):
        uploader.put(content, 0, b"x" * PART)
        starts = range(PART, len(uploader.contents[content]), PART)
        if not is_found_at_once:
            monkeypatch.setattr("model_store.backends.bucket.upload_buffer.CHECKED_AT_ONCE_BYTES", -1)
        answers = [uploader.put(content, start) for start in starts]
        assert answers[-1].status_code == (409 if is_found_at_once else 200)
        if is_found_at_once:
            assert content in uploader.missing
            assert uploader.complete().status_code == 409
    uploader.send_all()
    uploader.complete()
    library.settle()
    assert "what came is not what was announced" in Version.objects.get().reason
    assert uploader.missing == {content}
    hosts.next()
    uploader.send_all()
    assert uploader.complete().json()["name"] == "v1"
    library.settle()
    assert Version.objects.get().state == "ready"


def test_an_upload_that_is_given_up_leaves_nothing_in_the_bucket(hosts, library, model, api) -> None:
    cancelled = Uploader(api, b.model_files())
    cancelled.send_all()
    orphan = BucketUploadBuffer.at(blob_store.store().address, "a" * 32, part_bytes=1)
    orphan.begin([], [])
    hosts.next()
    api.post(f"{cancelled.path}cancel/", {})
    library.settle()
    assert left_in_the_bucket() == {"a" * 32}
    blob_store.forget_orphans()
    assert left_in_the_bucket() == {"a" * 32}  # it may belong to a row that is about to be there
    files._BEING_MADE, kept = timedelta(0), files._BEING_MADE
    try:
        blob_store.forget_orphans()
    finally:
        files._BEING_MADE = kept
    assert left_in_the_bucket() == set()


def test_while_the_bucket_is_away_the_list_says_what_it_last_knew(hosts, model, api, settings) -> None:
    uploader = Uploader(api, b.model_files())
    settings.SLIPWAY_STORE = "s3://nowhere/"
    shown = api.get("models/tiny/uploads/").json()["results"][0]
    assert (shown["received_bytes"], shown["state"]) == (0, "open")
    assert uploader.put(next(iter(uploader.contents)), 0).status_code == 503


@pytest.fixture
def begun(hosts, library, actor, model) -> Callable[[], Upload]:
    """An upload all of whose contents have come."""

    def begin() -> Upload:
        upload = uploads.begin_upload(actor=actor, model=model, files=announced(b.model_files())["files"])
        for content, data in CONTENTS.items():
            hosts.next()
            whole = f"bytes 0-{len(data) - 1}/{len(data)}"
            uploads.take_parts(
                actor=actor, upload=upload, sha256=content, content_range=whole, body=BytesIO(data)
            )
        return upload

    return begin


def test_a_completed_upload_survives_a_crash_and_goes_on_at_the_other_host(
    hosts, library, begun, actor
) -> None:
    for point in range(4, 80, 9):
        upload = begun()
        uploads.complete_upload(actor=actor, upload=upload)
        if not dies(library.worker(Checkpoints(at=point, then=die)), library.clock):
            break
        hosts.next()
        library.settle()
        upload = Upload.objects.select_related("version__model").get(pk=upload.pk)
        assert (upload.state, upload.is_held, upload.stuck_at) == ("done", False, None)
        assert not UploadContent.objects.filter(upload=upload).exists()
        assert (stored(), left_in_the_bucket()) == (set(CONTENTS), set())
        version_services.delete_version(actor=actor, version=upload.version)
        library.settle()
        library.collect()
    assert point > 20


def test_a_process_that_dies_in_the_midst_is_followed_by_one_of_the_other_host(begun) -> None:
    upload = begun()
    source, store = UploadSource(upload.key.hex, upload.part_bytes), blob_store.store()
    for at in itertools.count(1, 3):
        with store.staging("99") as staging:
            dying: Any = Dying(staging, at, after=at % 2 == 0)
            try:
                take_upload(store.address, source, dying, report=lambda progress: None)
            except Crash:
                pass
            else:
                break
        with store.staging("99") as staging:
            result = take_upload(store.address, source, staging, report=lambda progress: None)
        assert result.outcome == "accepted", result.reason
        store.discard("99", is_referenced=lambda blobs: set())
    assert at > 6
    assert files.buffer_of(upload).missing(list(upload.contents.all())) == {}
