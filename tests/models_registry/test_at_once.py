"""Several people, workers and processes at once, on a real database and with real processes."""

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import psutil
import pytest
from django.conf import settings
from django.db import connection
from django.utils import timezone

from accounts.actors import of_user
from common.actor import Actor
from common.errors import Conflict
from common.jobs import steps
from common.jobs.notes import STARTED, JobNotes
from common.jobs.runners.subprocess import local_runner
from common.jobs.steps import owner
from common.reconcile import Kernel
from model_store.models import Collection
from model_store.services import begin_collection
from models_registry import files
from models_registry.models import Alias, Version
from models_registry.reconcilers.versions import VersionReconciler
from models_registry.selectors import retention
from models_registry.services import aliases, catalogue, imports, versions
from models_registry.services import retention as retention_services
from tests import cast
from tests.models_registry import builders as b
from tests.patience import eventually

pytestmark = pytest.mark.django_db(transaction=True)


def at_once(*work: Callable[[], object]) -> list[Exception]:
    """Run all of it at the same moment; returns the domain's refusals, raises anything else."""
    refusals: list[Exception] = []
    faults: list[Exception] = []
    start = threading.Barrier(len(work))

    def run(one: Callable[[], object]) -> None:
        try:
            start.wait(10)
            one()
        except Conflict as refusal:
            refusals.append(refusal)
        except Exception as fault:
            faults.append(fault)
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(one,)) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "it has not ended in a minute"
    if faults:
        raise faults[0]
    return refusals


def test_imports_that_begin_at_once_get_numbers_of_their_own(library, actor, model) -> None:
    source = str(library.directory())

    def begin() -> None:
        imports.import_version(actor=actor, model=model, source=source)

    assert at_once(*[begin] * 6) == []
    assert sorted(Version.objects.values_list("number", flat=True)) == [1, 2, 3, 4, 5, 6]


def test_an_alias_never_ends_on_a_version_that_was_deleted_at_the_same_moment(library, actor, model) -> None:
    for _ in range(6):
        version = library.ready(actor, model)
        refusals = at_once(
            lambda version=version: aliases.set_alias(
                actor=actor, model=model, alias="production", version=version
            ),
            lambda version=version: versions.delete_version(
                actor=actor, version=Version.objects.select_related("model__team").get(pk=version.pk)
            ),
        )
        assert len(refusals) == 1
        state = Version.objects.get(pk=version.pk).state
        pointed = Alias.objects.filter(version=version).exists()
        assert (state, pointed) in {("ready", True), ("deleted", False)}
        Alias.objects.all().delete()


def test_of_two_who_create_one_model_one_succeeds(ada) -> None:
    team = cast.team("vision")
    actor = of_user(ada)
    refusals = at_once(*[lambda: catalogue.create_model(actor=actor, team=team, name="tiny")] * 2)
    assert len(refusals) == 1


def test_imports_and_collections_at_once_lose_no_file_and_keep_none(library, actor, model) -> None:
    """Each import takes content that the store has and that nothing needs, while it is being collected."""
    for _ in range(4):
        gone = [library.ready(actor, model, fill=bytes([fill])) for fill in (1, 2)]
        for version in gone:
            versions.delete_version(actor=actor, version=version)
        library.settle()
        begun = begin_collection(actor=Actor.system("test"), grace_seconds=0)
        again = imports.import_version(actor=actor, model=model, source=str(library.directory()))

        def collect(begun: Collection = begun) -> None:
            library.collected(begun)

        assert at_once(library.settle, collect) == []
        library.settle()
        again.refresh_from_db()
        assert again.state == "ready", again.reason
        library.store.check(files.manifest_of(again))
        library.collect()
        needed = {file.sha256 for file in files.manifest_of(again).files}
        assert library.stored() == needed
        versions.delete_version(actor=actor, version=Version.objects.get(pk=again.pk))


def test_an_alias_and_a_retention_rule_at_the_same_moment_agree(library, actor, model) -> None:
    rule = retention_services.set_retention(actor=actor, model=model, keep_last=1)
    for _ in range(4):
        version = library.ready(actor, model)
        library.ready(actor, model, fill=b"\x02")
        preview = retention.retention_preview(rule, timezone.now())
        retention_services.apply_retention(actor=actor, rule=rule, preview=preview.fingerprint)
        at_once(
            library.retain,
            lambda version=version: aliases.set_alias(
                actor=actor, model=model, alias="production", version=version
            ),
        )
        rule.refresh_from_db()
        assert (rule.asked, rule.stuck_at) == (None, None)
        state = Version.objects.get(pk=version.pk).state
        pointed = Alias.objects.filter(version=version).exists()
        assert (state, pointed) in {("ready", True), ("deleted", False)}
        Alias.objects.all().delete()


def settle(kernel: Kernel, version: Version, *, seconds: float = 60) -> Version:
    """Sweep in real time until the row rests."""
    deadline = time.monotonic() + seconds
    while True:
        kernel.sweep()
        version = Version.objects.get(pk=version.pk)
        if version.next_at is None:
            return version
        assert time.monotonic() < deadline, f"{version.state}: {version.last_error}"
        time.sleep(0.1)


def reconciling() -> Kernel:
    kernel = Kernel()
    kernel.register(VersionReconciler(local_runner()))
    return kernel


@pytest.mark.stack
def test_a_real_process_imports_a_directory(library, actor, model) -> None:
    version = imports.import_version(actor=actor, model=model, source=str(library.directory()))
    version = settle(reconciling(), version)
    assert (version.state, version.launches, version.job) == ("ready", 1, "")
    assert (files.materialise(version) / "config.json").read_bytes() == b.model_files()["config.json"]
    assert library.store.staging_keys() == []
    assert local_runner().names(owner(version)) == []


@pytest.mark.stack
def test_a_real_process_that_is_killed_is_started_again_and_finishes(
    library, actor, model, monkeypatch
) -> None:
    monkeypatch.setattr(steps, "RELAUNCH_AFTER", timedelta(seconds=0.5))
    directory = library.directory()
    (directory / "model.safetensors").write_bytes(b.weights(48 * 1024 * 1024))
    version = imports.import_version(actor=actor, model=model, source=str(directory))
    kernel = reconciling()
    kernel.sweep()
    version.refresh_from_db()
    eventually(lambda: local_runner().observe(version.job).progress, every=0.005)
    note = JobNotes(Path(settings.SLIPWAY_JOBS_DIR) / version.job).read(STARTED)
    psutil.Process(note["pid"]).children()[0].kill()
    version = settle(kernel, version)
    assert (version.state, version.launches) == ("ready", 2)
    assert library.stored() == {file.sha256 for file in files.manifest_of(version).files}


@pytest.mark.stack
def test_a_real_process_whose_import_is_cancelled_stops_and_leaves_nothing(library, actor, model) -> None:
    directory = library.directory()
    (directory / "model.safetensors").write_bytes(b.weights(48 * 1024 * 1024))
    version = imports.import_version(actor=actor, model=model, source=str(directory))
    kernel = reconciling()
    kernel.sweep()
    eventually(lambda: library.store.is_busy(str(version.pk)), every=0.005)
    imports.cancel_import(actor=actor, version=version)
    version = settle(kernel, version)
    assert version.state == "failed"
    assert library.stored() == set()
    assert not library.store.is_busy(str(version.pk))
    assert local_runner().names(owner(version)) == []
