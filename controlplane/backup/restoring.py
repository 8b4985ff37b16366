"""An installation out of a backup, in place of none or of one that is given up."""

import shutil
from pathlib import Path

from django.contrib.sessions.models import Session
from django.db import DatabaseError, connection, transaction
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.db.models import Model
from django.utils import timezone

from clusters.models import Cluster
from common import audit, hosts
from common.actor import Actor
from common.audit import heads
from common.audit.signing import SignatureCheck
from common.models import AuditHead, DiskCondition, Restoration
from common.pages.formats import byte_size
from common.reconcile.restored import outlive_lost_time
from common.sealed import key_ids
from controlplane.backup.blob_copies import copy_in
from controlplane.backup.databases import MIGRATIONS, Database, database
from controlplane.backup.errors import BackupError
from controlplane.backup.layout import Backup, BackupDirectory, BackupManifest
from controlplane.backup.taking import row_counts, say
from controlplane.environment import variable
from model_store import blob_store
from model_store.errors import BlobMissing, StagingBusy, StoreFull, StoreUnavailable
from model_store.file_manifest import FileManifest as FileManifest
from model_store.file_manifest import ManifestFile

ACTOR = Actor.system("restore")
STAGED = "restore"


def restore_backup(path: Path, *, name: str, replaces: bool, without_key: bool) -> Backup:
    """Raises BackupError, with the target as it was or as an interrupted restore that can be run again."""
    backup = BackupDirectory(path).open(name)
    target = database()
    _check_keys(backup.manifest, without_key=without_key)
    _check_fits(backup.manifest, target)
    backup.verify()
    with target.alone():
        if not replaces and not target.is_empty():
            raise BackupError(
                "The database is not empty. Nothing was changed. With --replace what it holds is given up "
                f"for the backup of {backup.manifest.made_at:%Y-%m-%d %H:%M} UTC."
            )
        _fill_store(backup, path)
        target.load(backup.database, tool_version=backup.manifest.database.tool_version)
        _check_rows(backup.manifest)
        _replace_heads(backup)
        _make_usable(backup, target)
        _stand_for_its_host()
    verdict = audit.verify()
    if verdict.broken is not None:
        raise BackupError(
            f"The audit record does not hold: entry {verdict.broken.seq}: {verdict.broken.reason}"
        )
    say(f"Database: {sum(backup.manifest.database.counts.values()):,} rows. {verdict.proven}")
    return backup


def _check_keys(manifest: BackupManifest, *, without_key: bool) -> None:
    check = manifest.check()
    if check is SignatureCheck.FOREIGN:
        raise BackupError(
            f"{variable('audit_key')} is not the one of this backup ({manifest.audit_key_id}): without it "
            "nobody can tell whether the backup was changed. Put the lines of the keys file in place."
        )
    if check is SignatureCheck.FORGED:
        raise BackupError("The manifest was changed after it was signed. Take another backup.")
    if manifest.secret_key_id not in key_ids() and not without_key:
        raise BackupError(
            f"{variable('secret_key')} is not the one of this backup ({manifest.secret_key_id}): stored "
            f"secrets would stay closed. Put the lines of the keys file in place, or the key among "
            f"{variable('secret_key_fallbacks')}; if it is lost, --without-key restores all else."
        )


def _check_fits(manifest: BackupManifest, target: Database) -> None:
    if manifest.database.vendor != target.vendor:
        names = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
        raise BackupError(
            f"The backup is of {names[manifest.database.vendor]}, and {variable('database_url')} names "
            f"{names[target.vendor]}."
        )
    known = MigrationLoader(None).disk_migrations
    newer = [f"{app} {name}" for app, name in manifest.database.migrations if (app, name) not in known]
    if newer:
        strangers = ", ".join(newer[:3])
        raise BackupError(
            f"The backup is of Slipway {manifest.slipway}, whose database is newer than this code: it has "
            f"{strangers}. Install that version."
        )


def _check_rows(manifest: BackupManifest) -> None:
    found = row_counts()
    said = manifest.database.counts
    for table in (MIGRATIONS, Session._meta.db_table):
        found.pop(table, None)
    wrong = [table for table in found.keys() & said.keys() if found[table] != said[table]]
    head = AuditHead.objects.get(pk=1)
    if wrong or (head.seq, head.hash) != (manifest.audit_seq, manifest.audit_hash):
        tables = ", ".join(sorted(wrong)) or "the audit record"
        raise BackupError(f"What was restored is not what the manifest says: {tables}. Take another backup.")


def _fill_store(backup: Backup, root: Path) -> None:
    """Before the database: what lies there is known by its digest, and harms nobody."""
    store, blobs = blob_store.store(), backup.blobs()
    try:
        if not backup.manifest.store.is_copied:
            _look_for(blobs)
            return
        with store.staging(STAGED) as staging:
            copied = copy_in(staging, blobs, root)
        held = store.held(STAGED)
        files = tuple(ManifestFile(sha256, held[sha256], sha256) for sha256 in blobs)
        store.publish(STAGED, FileManifest(files))
        store.discard(STAGED, is_referenced=set)
    except StagingBusy:
        raise BackupError("Another restore is at work on this store. Wait for its end.") from None
    except (StoreFull, StoreUnavailable, BlobMissing) as error:
        raise BackupError(str(error)) from None
    say(f"Store: {len(blobs)} files, each compared with its sha256; {byte_size(copied)} copied.")


def _look_for(blobs: dict[str, Path]) -> None:
    """The files of models were not copied: they are to be where they were."""
    there: set[str] = set()
    for _, found in blob_store.store().walk():
        there |= found.keys()
    missing = sorted(blobs.keys() - there)
    say(f"Store: not part of the backup. {len(blobs) - len(missing)} of {len(blobs)} files are there.")
    if missing:
        say(
            f"Missing are {', '.join(missing[:3])}{' and more' if missing[3:] else ''}: bring the bucket "
            "back to the time of the backup, or have the store checked once it runs.",
            error=True,
        )


def _replace_heads(backup: Backup) -> None:
    """Keep the heads of the lost time aside: they would condemn the record."""
    file = heads.file()
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if file.exists():
            file.rename(file.with_name(f"heads.before-{timezone.now():%Y%m%dT%H%M%SZ}.jsonl"))
        shutil.copyfile(backup.heads, file)
        file.chmod(0o600)
    except OSError as error:
        raise BackupError(f"{file} cannot be written: {error.strerror}.") from None


def _stand_for_its_host() -> None:
    """An empty home is that of the host whose gateway and workers the rows name, where there is but one."""
    names = set(Cluster.objects.present().exclude(host="").values_list("host", flat=True))
    try:
        for name in names if len(names) == 1 else ():
            if hosts.take_name(name):
                say(f"This is the host {name} from now on.")
    except OSError as error:
        raise BackupError(f"The name of this host cannot be kept: {error.strerror}.") from None
    for name in sorted(names - {hosts.this_host()}):
        say(f"The host {name} is another one: its gateway and its models wait for it.")


def _make_usable(backup: Backup, target: Database) -> None:
    manifest = backup.manifest
    restoration = Restoration(made_at=manifest.made_at, name=backup.name, audit_seq=manifest.audit_seq)

    def leap(model: type[Model]) -> None:
        target.leap(model._meta.db_table, str(model._meta.pk.column))

    try:
        with transaction.atomic():
            outlive_lost_time(restoration, leap=leap)
            Session.objects.all().delete()
            DiskCondition.objects.all().delete()
            audit.record(
                ACTOR,
                "installation.restore",
                subject=backup.name,
                detail={"made_at": manifest.made_at, "audit_seq": manifest.audit_seq},
            )
            recorder = MigrationRecorder(connection)
            for app, name in manifest.database.migrations:
                recorder.record_applied(app, name)
    except DatabaseError as error:
        raise BackupError(f"The restored database cannot be made usable: {error}") from None
