"""The process that imports: what it tells while it runs, and what follows when it dies."""

from datetime import timedelta

import pytest

from common import disk
from common.errors import WrongState
from common.jobs.spec import Ending
from model_store.backends.local import LocalStore
from model_store.processes.job import StagingJob
from models_registry.models import Version, VersionMove
from models_registry.services import imports
from tests.models_registry.conftest import do_here, job_of

pytestmark = pytest.mark.django_db


def begun(library, actor, model, **options) -> Version:
    return imports.import_version(actor=actor, model=model, source=str(library.directory()), **options)


def history(version: Version) -> list[str]:
    return [move.to_state for move in VersionMove.objects.filter(version=version)]


def test_progress_stands_in_the_row_while_the_import_runs(library, actor, model) -> None:
    runner = library.jobs_do(None)
    version = begun(library, actor, model)
    library.worker().sweep()
    runner.report(
        runner.live[0], bytes_done=70, bytes_total=100, files_done=1, files_total=2, bytes_per_second=10
    )
    library.clock.pass_(timedelta(seconds=1))
    library.worker().sweep()
    version.refresh_from_db()
    assert (version.bytes_done, version.bytes_total, version.files_done, version.files_total) == (
        70,
        100,
        1,
        2,
    )
    assert version.seconds_left == 3
    assert [job_of(spec).source.path for spec in runner.started] == ["model"]


def test_a_process_that_dies_is_started_again(library, actor, model) -> None:
    starts: list[int] = []

    def dies_at_first(job: StagingJob) -> object:
        starts.append(1)
        return do_here(job) if len(starts) == 3 else None

    library.jobs_do(dies_at_first)
    version = begun(library, actor, model)
    library.settle()
    version.refresh_from_db()
    assert version.state == "ready"
    assert len(starts) == 3
    assert history(version) == ["importing", "ready"]


def test_a_process_that_always_dies_fails_the_import_with_its_last_words(library, actor, model) -> None:
    runner = library.jobs_do(None)
    version = begun(library, actor, model)
    for _ in range(10):
        library.worker().sweep()
        runner.die(runner.live[0], log_tail="Traceback\nSegmentation fault\n")
        library.clock.pass_(timedelta(seconds=6))
        library.worker().sweep()
        library.clock.pass_(timedelta(seconds=6))
    library.settle()
    version.refresh_from_db()
    assert version.state == "failed"
    assert version.reason == "The importing process died 10 times. Its last words: Segmentation fault"
    assert runner.jobs == {}


def test_on_a_full_disk_an_import_waits_says_so_and_goes_on_by_itself(
    library, actor, model, monkeypatch
) -> None:
    starts: list[StagingJob] = []
    is_full = False

    def dies_of_the_disk(job: StagingJob) -> object:
        nonlocal is_full
        starts.append(job)
        if len(starts) > 1:
            return do_here(job)
        is_full = True
        return None

    monkeypatch.setattr(disk, "is_full", lambda: is_full)
    library.jobs_do(dies_of_the_disk)
    version = begun(library, actor, model)
    kernel = library.worker()
    for _ in range(30):
        kernel.sweep()
        library.clock.pass_(timedelta(seconds=12))
    version.refresh_from_db()
    assert (version.state, len(starts), version.launches) == ("importing", 1, 0)
    assert version.reason == "The disk is full: the import goes on by itself when there is room."

    is_full = False
    library.settle()
    version.refresh_from_db()
    assert (version.state, version.reason, len(starts)) == ("ready", "", 2)


def test_no_process_is_started_while_one_of_another_machine_holds_the_intake(library, actor, model) -> None:
    version = begun(library, actor, model)
    with library.store.staging(str(version.pk)) as staging:
        for _ in range(5):
            library.worker().sweep()
            library.clock.pass_(timedelta(seconds=6))
        assert library.runner.started == []
        assert staging.is_unwanted()
    library.settle()
    version.refresh_from_db()
    assert version.state == "ready"


def test_cancelling_stops_the_process_and_removes_what_it_copied(library, actor, model) -> None:
    runner = library.jobs_do(None)
    runner.stops_at_once = False
    version = begun(library, actor, model)
    kernel = library.worker()
    kernel.sweep()
    with library.store.staging(str(version.pk)) as staging:
        version = imports.cancel_import(actor=actor, version=version, reason="Wrong directory.")
        assert (version.state, version.reason) == ("failed", "Cancelled by ada. Wrong directory.")
        library.clock.pass_(timedelta(seconds=1))
        kernel.sweep()
        assert runner.stopped == runner.live
        runner.die(runner.live[0], Ending.STOPPED)
        library.clock.pass_(timedelta(seconds=1))
        kernel.sweep()
        assert staging.is_unwanted()
        assert library.store.staging_keys() == [str(version.pk)]
    library.settle()
    assert library.store.staging_keys() == []
    assert runner.jobs == {}
    assert history(version) == ["importing", "failed"]
    with pytest.raises(WrongState, match="no import to cancel"):
        imports.cancel_import(actor=actor, version=version)


def test_a_process_of_an_attempt_that_is_over_is_told_to_stop(library, actor, model) -> None:
    runner = library.jobs_do(None)
    runner.stops_at_once = False
    version = begun(library, actor, model)
    kernel = library.worker()
    kernel.sweep()
    version = imports.cancel_import(actor=actor, version=version)
    version = imports.retry_import(actor=actor, version=version)
    library.clock.pass_(timedelta(seconds=10))
    kernel.sweep()
    first = runner.started[0].name
    assert (runner.stopped, runner.live) == ([first], [first])
    library.jobs_do(do_here)
    runner.finish(first, {"outcome": "accepted"})
    library.settle()
    version.refresh_from_db()
    assert (version.state, len(runner.started)) == ("ready", 2)


def test_an_import_whose_copies_are_lost_before_they_are_published_fails_and_a_retry_copies_anew(
    library, actor, model, monkeypatch
) -> None:
    version = begun(library, actor, model)
    publish = LocalStore.publish

    def lose(self, key, manifest) -> None:
        for path in (self.root / "incoming" / key).iterdir():
            path.unlink()
        publish(self, key, manifest)

    monkeypatch.setattr(LocalStore, "publish", lose)
    library.settle()
    version.refresh_from_db()
    assert (version.state, version.stuck_at) == ("failed", None)
    assert "is gone. Retry the import." in version.reason
    assert (version.files.count(), library.store.staging_keys()) == (0, [])
    monkeypatch.undo()
    version = imports.retry_import(actor=actor, version=version)
    library.settle()
    version.refresh_from_db()
    assert (version.state, version.stuck_at) == ("ready", None)
