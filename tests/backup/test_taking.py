"""What a backup holds, whatever happens to the installation meanwhile."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django.utils import timezone

from common.health import HealthProbe
from common.models import AuditRecord
from controlplane import health
from controlplane.backup import restoring, taking
from controlplane.backup.errors import BackupError
from controlplane.backup.last import last_backup
from controlplane.backup.layout import BackupDirectory, sha256_of
from controlplane.backup.restoring import restore_backup
from controlplane.backup.taking import take_backup
from controlplane.health import parts_health
from model_store import references
from tests.models_registry.conftest import Library

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.any_database]


@pytest.fixture
def place(tmp_path: Path, library: Library, version, settings) -> Iterator[Path]:
    """The directory for backups, with one version to back up."""
    settings.SLIPWAY_HOME = library.home
    # The tests' own database is made without them.
    settings.MIGRATION_MODULES = {}
    recorder = MigrationRecorder(connection)
    recorder.ensure_schema()
    recorder.flush()
    recorder.record_applied("common", "0001_initial")
    yield tmp_path / "backups"
    recorder.flush()


def backup(place: Path) -> restoring.Backup:
    return take_backup(place, keys=None, with_store=None)


def test_a_collection_that_runs_meanwhile_takes_nothing_from_the_copy(place, library, version, monkeypatch):
    copy_out = taking.copy_out
    needed = references.whole()
    assert needed

    def after_a_collection(*args, **options):
        # Nobody needs anything any more, and there is no grace.
        library.store.reclaim(needed, is_referenced=lambda _: set())
        assert not list(library.store.walk())
        return copy_out(*args, **options)

    monkeypatch.setattr(taking, "copy_out", after_a_collection)
    made = backup(place)
    assert made.manifest.store.missing == []
    assert {sha256_of(place / path) for path in made.blobs().values()} == set(needed)


def test_what_holds_the_files_is_gone_afterwards_and_the_deed_is_on_record(place, library):
    made = backup(place)
    assert library.store.staging_keys() == []
    assert AuditRecord.objects.get(action="installation.backup").subject_label == made.name
    made.verify()


def test_the_last_backup_is_known_when_it_is_whole_and_too_old_in_time(place, settings, monkeypatch):
    asked = HealthProbe("backup", health._backup, vital=False)

    def said() -> tuple[bool, str]:
        found = parts_health((asked,))["backup"]
        return found.ok, str(found.detail)

    assert said() == (True, "none was made by slipway-server backup")
    settings.SLIPWAY_BACKUP_MAX_AGE_HOURS = 26
    assert said() == (False, "none was made yet by slipway-server backup")
    monkeypatch.setattr(taking, "copy_out", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        backup(place)
    assert last_backup() is None
    monkeypatch.undo()

    settings.SLIPWAY_BACKUP_MAX_AGE_HOURS = 26
    backup(place)
    made = last_backup()
    assert made is not None
    assert said() == (True, f"the last one is of {made:%Y-%m-%d %H:%M} UTC")
    later = timezone.now() + timedelta(hours=27)
    monkeypatch.setattr(health.clock, "now", lambda: later)
    assert said() == (False, f"the last one is of {made:%Y-%m-%d %H:%M} UTC, more than 26 h ago")


def test_an_interrupted_copy_goes_on_where_it_was(place, library, monkeypatch):
    copy_out = taking.copy_out

    def half(staging, blobs, root, *, copied):
        first = dict(list(blobs.items())[:1])
        copy_out(staging, first, root, copied=copied)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(taking, "copy_out", half)
    with pytest.raises(BackupError, match=r"No space left.*run it again"):
        backup(place)
    with pytest.raises(BackupError, match="no backup"):
        BackupDirectory(place).open()
    copied: list[int] = []

    def the_rest(staging, blobs, root, **_):
        return copy_out(staging, blobs, root, copied=copied.append)

    monkeypatch.setattr(taking, "copy_out", the_rest)
    made = backup(place)
    assert len(copied) == len(made.blobs()) - 1


def test_older_backups_go_with_the_files_that_only_they_need(place, monkeypatch):
    older = backup(place)
    (lost, path), *_ = older.blobs().items()
    without = {sha256: size for sha256, size in references.whole().items() if sha256 != lost}
    monkeypatch.setattr(references, "whole", lambda: without)
    between = backup(place)
    assert (place / path).exists()
    newest = take_backup(place, keys=None, with_store=None, keep=2)
    assert BackupDirectory(place).names() == [between.name, newest.name]
    assert not (place / path).exists()
    assert all((place / one).exists() for one in newest.blobs().values())


def test_a_damaged_file_of_the_store_is_left_out_and_told(place, library, capsys):
    damaged, size = next(iter(references.whole().items()))
    path = library.store.blob_path(damaged)
    path.chmod(0o600)
    path.write_bytes(bytes(size))
    made = backup(place)
    assert made.manifest.store.missing == [damaged]
    assert damaged not in made.blobs()
    assert damaged in capsys.readouterr().err


def test_what_is_no_whole_backup_of_this_installation_is_not_restored(place, settings):
    made = backup(place)
    audit_key, settings.SLIPWAY_AUDIT_KEY = settings.SLIPWAY_AUDIT_KEY, "another" * 8
    refused(place, "SLIPWAY_AUDIT_KEY is not the one")
    settings.SLIPWAY_AUDIT_KEY = audit_key
    secret_key, settings.SECRET_KEY = settings.SECRET_KEY, "another" * 8
    refused(place, "SLIPWAY_SECRET_KEY is not the one")
    settings.SECRET_KEY = secret_key
    manifest = made.place / "manifest.json"
    text = manifest.read_text()
    manifest.write_text(text.replace(made.manifest.audit_hash, "0" * 64))
    refused(place, "changed after it was signed")
    manifest.write_text(text)
    with made.database.open("r+b") as file:
        file.write(b"not SQLite")
    refused(place, "damaged")


def test_a_backup_of_a_newer_release_is_not_restored(place):
    MigrationRecorder(connection).record_applied("common", "0002_later")
    backup(place)
    refused(place, "common 0002_later")


def refused(place: Path, words: str) -> None:
    with pytest.raises(BackupError, match=words):
        restore_backup(place, name="", replaces=True, without_key=False)
