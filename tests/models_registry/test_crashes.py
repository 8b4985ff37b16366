"""Workers die or fall asleep at any point of an import, a cancellation or a deletion: the end is the same."""

import pickle
from collections.abc import Callable

import pytest

from common import audit
from common.actor import Actor
from common.models import AuditRecord, Intent
from models_registry import files
from models_registry.models import Version, VersionFile, VersionMove
from models_registry.services import imports, versions
from tests.crash.harness import LEASE_AND_A_BIT, Checkpoints, die, dies
from tests.models_registry import builders as b

pytestmark = pytest.mark.django_db

Play = Callable[[], Version]


@pytest.fixture
def kept(library, actor, model) -> Version:
    """Shares one file with everything that is imported after it."""
    b.write(library.root / "kept", {"config.json": b.model_files()["config.json"], "README.md": b"# kept"})
    version = imports.import_version(actor=actor, model=model, source=str(library.root / "kept"))
    library.settle()
    return Version.objects.get(pk=version.pk)


def check(library, kept: Version, version: Version, states: list[str]) -> None:
    version = Version.objects.get(pk=version.pk)
    assert version.state == states[-1]
    moves = VersionMove.objects.filter(version=version).order_by("pk")
    assert [move.to_state for move in moves] == states
    rows = AuditRecord.objects.filter(subject_kind="models_registry.version", subject_id=str(version.pk))
    assert rows.count() == len(states)
    assert audit.verify().intact
    needed = {file.sha256 for file in files.manifest_of(kept).files}
    if states[-1] == "ready":
        assert version.file_count == VersionFile.objects.filter(version=version).count() == 5
        needed |= {file.sha256 for file in files.manifest_of(version).files}
        assert files.manifest_of(version).digest == version.digest
    elif states[-1] != "deleted":
        assert not VersionFile.objects.filter(version=version).exists()
    library.collect()
    library.store.check(files.manifest_of(kept))
    assert library.stored() == needed
    assert not version.is_held
    assert version.stuck_at is None


def crash_everywhere(library, kept: Version, play: Play, states: list[str], *, again_at: int = 0) -> int:
    """Crash the worker at its 1st, 2nd, ... checkpoint, and with `again_at` the next one too."""
    point = 0
    while True:
        point += 1
        version = play()
        if not dies(library.worker(Checkpoints(at=point, then=die)), library.clock):
            return point - 1
        if again_at:
            dies(library.worker(Checkpoints(at=again_at, then=die)), library.clock)
        library.settle()
        check(library, kept, version, states)
        Intent.objects.all().delete()
        forget(library, version)


def forget(library, version: Version) -> None:
    """Delete the version, so that the next round copies again instead of finding everything in the store."""
    version = Version.objects.get(pk=version.pk)
    if version.state != "deleted":
        versions.delete_version(actor=Actor.system("test"), version=version)
        library.settle()


@pytest.fixture
def play_import(library, actor, model) -> Play:
    library.directory()
    return lambda: imports.import_version(actor=actor, model=model, source=str(library.root / "model"))


@pytest.fixture
def play_refusal(library, actor, model) -> Play:
    b.write(library.directory("bad"), {"evil.pkl": pickle.dumps(1)})
    return lambda: imports.import_version(actor=actor, model=model, source=str(library.root / "bad"))


@pytest.fixture
def play_deletion(library, actor, model, play_import) -> Play:
    def play() -> Version:
        version = play_import()
        library.settle()
        version = Version.objects.get(pk=version.pk)
        files.materialise(version)
        versions.delete_version(actor=actor, version=version)
        return version

    return play


def test_an_import_survives_a_crash_at_any_point(library, kept, play_import) -> None:
    assert crash_everywhere(library, kept, play_import, ["importing", "ready"]) >= 15


@pytest.mark.slow
def test_a_refusal_survives_a_crash_at_any_point(library, kept, play_refusal) -> None:
    assert crash_everywhere(library, kept, play_refusal, ["importing", "refused"]) >= 8


@pytest.mark.slow
def test_a_deletion_survives_a_crash_at_any_point(library, kept, play_deletion) -> None:
    assert crash_everywhere(library, kept, play_deletion, ["importing", "ready", "deleted"]) >= 5


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("second", range(1, 22, 4))
def test_an_import_survives_two_crashes_at_any_two_points(library, kept, play_import, second: int) -> None:
    assert crash_everywhere(library, kept, play_import, ["importing", "ready"], again_at=second) >= 15


@pytest.mark.slow
def test_a_worker_that_sleeps_past_its_lease_at_any_point_changes_nothing(library, kept, play_import) -> None:
    point = 0
    while True:
        point += 1
        version = play_import()

        def others_finish() -> None:
            library.clock.pass_(LEASE_AND_A_BIT)
            library.settle()

        checkpoints = Checkpoints(at=point, then=others_finish, outside=True)
        library.worker(checkpoints).sweep()
        if checkpoints.passed < point:
            break
        library.settle()
        check(library, kept, version, ["importing", "ready"])
        forget(library, version)
    assert point > 15


@pytest.mark.slow
def test_a_cancellation_at_any_point_ends_with_nothing_left_or_with_the_whole_version(
    library, kept, actor, play_import
) -> None:
    point, cancelled = 0, 0
    while True:
        point += 1
        version = play_import()
        refused: list[Exception] = []

        def cancel(version: Version = version, refused: list = refused) -> None:
            try:
                imports.cancel_import(actor=actor, version=Version.objects.get(pk=version.pk))
            except Exception as error:
                refused.append(error)

        checkpoints = Checkpoints(at=point, then=cancel, outside=True)
        library.worker(checkpoints).sweep()
        if checkpoints.passed < point:
            break
        library.settle()
        check(library, kept, version, ["importing", "ready" if refused else "failed"])
        cancelled += not refused
        forget(library, version)
    assert cancelled >= 10
