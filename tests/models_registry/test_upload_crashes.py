"""Workers and importing processes die at any point of an upload: the end is the same."""

import itertools
import os
from collections.abc import Callable, Iterable
from datetime import timedelta
from io import BytesIO
from typing import Any

import pytest
from django.utils import timezone

from common.actor import Actor
from common.models import Intent
from model_store import blob_store
from model_store.backends.local import LocalStore
from models_registry import files
from models_registry.importing.upload import UploadSource, take_upload
from models_registry.models import Upload, UploadContent, Version
from models_registry.services import uploads
from models_registry.services import versions as version_services
from tests.crash.harness import LEASE_AND_A_BIT, Checkpoints, Crash, die, dies
from tests.models_registry import builders as b
from tests.models_registry.builders import sha256
from tests.models_registry.test_uploads import announced

pytestmark = pytest.mark.django_db
CONTENTS = {sha256(data): data for data in b.model_files().values()}


@pytest.fixture
def begun(library, actor, model) -> Callable[[], Upload]:
    """An upload all of whose contents have come."""

    def begin() -> Upload:
        listed = announced(b.model_files())["files"]
        upload = uploads.begin_upload(actor=actor, model=model, files=listed)
        for content, data in CONTENTS.items():
            uploads.take_parts(
                actor=actor, upload=upload, sha256=content, content_range="", body=BytesIO(data)
            )
        return upload

    return begin


def crash_at(library, points: Iterable[int], play: Callable[[], Upload], state: str) -> int:
    """Crash at each point; return how many there were until a run passed fewer."""
    for point in points:
        upload = play()
        if not dies(library.worker(Checkpoints(at=point, then=die)), library.clock):
            return point
        library.settle()
        upload = Upload.objects.get(pk=upload.pk)
        assert (upload.state, upload.is_held, upload.stuck_at) == (state, False, None)
        assert not UploadContent.objects.filter(upload=upload).exists()
        versions = Version.objects.filter(pk=upload.version_id)
        assert library.stored() == (set(CONTENTS) if state == "done" else set())
        for version in versions.filter(state="ready"):
            version_services.delete_version(actor=Actor.system("test"), version=version)
        library.settle()
        library.collect()
        Intent.objects.all().delete()
    return 0


@pytest.fixture
def play_completion(begun, actor) -> Callable[[], Upload]:
    def play() -> Upload:
        upload = begun()
        uploads.complete_upload(actor=actor, upload=upload)
        return upload

    return play


def test_a_completed_upload_survives_a_crash_at_some_points(library, play_completion) -> None:
    assert crash_at(library, range(3, 60, 6), play_completion, "done") >= 20


@pytest.mark.slow
def test_a_completed_upload_survives_a_crash_at_any_point(library, play_completion) -> None:
    assert crash_at(library, range(1, 80), play_completion, "done") >= 20


def test_a_cancellation_survives_a_crash_at_any_point(library, begun, actor) -> None:
    def play() -> Upload:
        return uploads.cancel_upload(actor=actor, upload=begun())

    assert crash_at(library, range(1, 40), play, "cancelled") >= 5


class Dying:
    """A staging area whose process dies before its `at`-th call, or after it."""

    def __init__(self, staging: Any, at: int, *, after: bool) -> None:
        self._staging, self._at, self._after = staging, at, after
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._staging, name)

        def call(*args: Any, **how: Any) -> Any:
            self.calls += 1
            if self.calls == self._at and not self._after:
                raise Crash
            answer = real(*args, **how)
            if self.calls == self._at:
                raise Crash
            return answer

        return call


def test_a_process_that_dies_in_the_midst_is_followed_by_one_that_ends_it(library, begun) -> None:
    upload = begun()
    source = UploadSource(upload.key.hex, upload.part_bytes)
    store = LocalStore(library.home / "models")
    place = str(store.root)
    for at in itertools.count(1):
        died = 0
        for after in (False, True):
            with store.staging("99") as staging:
                dying: Any = Dying(staging, at, after=after)
                try:
                    take_upload(place, source, dying, report=lambda progress: None)
                except Crash:
                    died += 1
            with store.staging("99") as staging:
                result = take_upload(place, source, staging, report=lambda progress: None)
            assert result.outcome == "accepted", result.reason
            store.discard("99", is_referenced=lambda blobs: set())
        if not died:
            break
    # How often it notes how far it is depends on the time that it takes.
    assert at > 6
    assert files.buffer_of(upload).missing(list(upload.contents.all())) == {}


def test_what_a_process_left_that_died_before_its_row_was_there_is_removed(library, begun) -> None:
    upload = begun()
    kept = library.store.root / "uploads" / upload.key.hex
    orphan, young = kept.with_name("a" * 32), kept.with_name("b" * 32)
    for directory in (orphan, young):
        directory.mkdir()
    long_ago = (timezone.now() - timedelta(hours=2)).timestamp()
    for directory in (kept, orphan):
        os.utime(directory, (long_ago, long_ago))
    blob_store.forget_orphans()
    assert not orphan.exists()
    assert young.exists()
    assert kept.exists()


def test_what_is_known_stays_while_the_upload_lives(library, actor, model) -> None:
    version = library.ready(actor, model)
    upload = uploads.begin_upload(actor=actor, model=model, files=announced(b.model_files())["files"])
    version_services.delete_version(actor=actor, version=version)
    library.clock.at = timezone.now()
    library.worker().sweep()
    library.clock.pass_(timedelta(hours=2))
    library.collect()
    assert set(CONTENTS) <= library.stored()
    made = uploads.complete_upload(actor=actor, upload=upload)
    library.settle()
    assert Version.objects.get(pk=made.pk).state == "ready"


def test_a_worker_that_sleeps_past_its_lease_changes_nothing(library, play_completion, actor) -> None:
    for point in range(2, 40, 5):
        upload = play_completion()

        def others_finish() -> None:
            library.clock.pass_(LEASE_AND_A_BIT)
            library.settle()

        checkpoints = Checkpoints(at=point, then=others_finish, outside=True)
        library.worker(checkpoints).sweep()
        if checkpoints.passed < point:
            break
        library.settle()
        upload = Upload.objects.select_related("version__model").get(pk=upload.pk)
        assert (upload.state, upload.is_held, upload.version.state) == ("done", False, "ready")
        assert library.stored() == set(CONTENTS)
        version_services.delete_version(actor=actor, version=upload.version)
        library.settle()
        library.collect()
    assert point > 20
