"""One backup of the installation as it is at this moment, while it goes on."""

import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from django.apps import apps
from django.conf import settings
from django.db import connection, transaction
from django.db.migrations.recorder import MigrationRecorder
from django.utils import timezone

from common import audit
from common.actor import Actor
from common.audit import heads
from common.models import AuditHead
from common.pages.formats import byte_size
from controlplane.backup.blob_copies import copy_out
from controlplane.backup.databases import MIGRATIONS, Database, database
from controlplane.backup.errors import BackupError
from controlplane.backup.keys import own_key_id, write_keys
from controlplane.backup.last import ACTION
from controlplane.backup.layout import (
    Backup,
    BackupDirectory,
    BackupManifest,
    DatabaseCopy,
    StoreCopy,
    sha256_of,
    write_blobs,
)
from model_store import blob_store, references
from model_store.backends.base import Staging
from model_store.errors import StagingBusy

ACTOR = Actor.system("backup")
HELD = "backup"
"""Key of the staging area that keeps what the copy needs: collections take nothing from it away, and no row's
key looks like it."""


@dataclass(frozen=True, slots=True)
class BackupFacts:
    """Facts about the database at one moment."""

    migrations: list[tuple[str, str]]
    counts: dict[str, int]
    head: heads.ChainHead
    blobs: dict[str, int]


def take_backup(path: Path, *, keys: Path | None, with_store: bool | None, keep: int | None = None) -> Backup:
    """`with_store`: whether the models' files are copied; None: unless they lie in a bucket. `keep`: how many
    backups stay, this one among them; None: all.

    Raises BackupError.
    """
    source, directory = database(), BackupDirectory(path)
    source.check_tools()
    copies_store = with_store if with_store is not None else not settings.SLIPWAY_STORE
    directory.make()
    with directory.alone(), _holding(copies_store) as staging:
        for stale in directory.unfinished():
            shutil.rmtree(stale)
        place = directory.begun(at := timezone.now())
        facts, missing = _state(source, place, staging)
        say(f"Database: {sum(facts.counts.values()):,} rows, {byte_size(_size(place / source.file))}.")
        if staging is not None:
            missing += _copy(staging, facts.blobs, missing, directory)
        write_blobs(place / "blobs.sha256", {one: facts.blobs[one] for one in facts.blobs.keys() - missing})
        _write_heads(place / "heads.jsonl", facts.head)
        manifest = BackupManifest(
            slipway=settings.SLIPWAY_VERSION,
            made_at=at,
            database=DatabaseCopy(
                vendor=source.vendor,
                file=source.file,
                sha256=sha256_of(place / source.file),
                tool_version=source.tool_version,
                migrations=facts.migrations,
                counts=facts.counts,
            ),
            store=StoreCopy(
                is_copied=staging is not None,
                where=settings.SLIPWAY_STORE or str(settings.SLIPWAY_STORE_DIR),
                blobs=len(facts.blobs) - len(missing),
                bytes=sum(size for one, size in facts.blobs.items() if one not in missing),
                sha256=sha256_of(place / "blobs.sha256"),
                missing=missing,
            ),
            audit_seq=facts.head.seq,
            audit_hash=facts.head.hash,
            heads_sha256=sha256_of(place / "heads.jsonl"),
            secret_key_id=own_key_id(),
            audit_key_id="",
        ).signed()
        backup = directory.finish(place, manifest)
        if keep is not None and (gone := directory.keep_newest(keep)):
            say(f"Older backups removed: {gone}.")
    with transaction.atomic():
        audit.record(ACTOR, ACTION, subject=backup.name, detail={"directory": str(path)})
    if keys is not None:
        write_keys(keys)
    return backup


@contextmanager
def _holding(copies_store: bool) -> Iterator[Staging | None]:
    """A staging area of the store, gone afterwards; None when nothing of the store is copied."""
    if not copies_store:
        yield None
        return
    store = blob_store.store()
    try:
        with ExitStack() as stack:
            yield stack.enter_context(store.staging(HELD))
    except StagingBusy:
        raise BackupError("Another backup of this installation is being made. Wait for its end.") from None
    # One that was killed leaves it to the next.
    store.discard(HELD, is_referenced=blob_store.needed)


def _state(source: Database, place: Path, staging: Staging | None) -> tuple[BackupFacts, list[str]]:
    """The database in a file, with the blobs that its rows need held; and which of these the store lacks."""
    lost: set[str] = set()
    while True:
        with source.snapshot():
            facts = _facts()
            missing = _not_held(staging, facts.blobs)
            if lost.issuperset(missing):
                source.dump(place / source.file)
                break
        # What nothing needs any more was collected between the look and the hold: look again.
        lost = references.referenced(missing)
    for sha256 in missing:
        say(f"The store lacks {sha256}, which a version needs; `slipway store check` says which.", error=True)
    return facts, missing


def _not_held(staging: Staging | None, blobs: Mapping[str, int]) -> list[str]:
    if staging is None:
        return []
    return sorted(sha256 for sha256, size in blobs.items() if not staging.hold(sha256, size))


def _facts() -> BackupFacts:
    """Raises BackupError."""
    if MIGRATIONS not in connection.introspection.table_names():
        raise BackupError("The database holds nothing yet: `slipway-server prepare` has not been run.")
    recorded = MigrationRecorder.Migration.objects.order_by("pk").values_list("app", "name")
    head = AuditHead.objects.get(pk=1)
    return BackupFacts(
        migrations=list(recorded),
        counts=row_counts(),
        head=heads.ChainHead.signed(head.seq, head.hash, timezone.now()),
        blobs=references.whole(),
    )


def row_counts() -> dict[str, int]:
    """Count the rows of every kind that the code knows, by table."""
    models = (model for model in apps.get_models(include_auto_created=True) if model._meta.managed)
    return {model._meta.db_table: model._base_manager.count() for model in models}


def _copy(
    staging: Staging, blobs: Mapping[str, int], missing: list[str], directory: BackupDirectory
) -> list[str]:
    """Find those that are damaged in the store."""
    wanted = {sha256: size for sha256, size in blobs.items() if sha256 not in missing}
    fresh: list[int] = []
    try:
        damaged = copy_out(staging, wanted, directory.path, copied=fresh.append)
    except OSError as error:
        raise BackupError(
            f"The files of models cannot be copied to {directory.path}: {error.strerror}. Those that are "
            "there stay; run it again."
        ) from None
    told = f"{byte_size(sum(wanted.values()))}; new: {len(fresh)}, {byte_size(sum(fresh))}"
    say(f"Store: {len(wanted)} files, {told}.")
    for sha256 in damaged:
        say(f"The store's {sha256} is damaged and was left out: `slipway store check` mends it.", error=True)
    return damaged


def _write_heads(path: Path, head: heads.ChainHead) -> None:
    """Write the heads exported until then, and the one of the copy."""
    former = [one for one in heads.read(heads.file()) if one.seq <= head.seq]
    path.write_text("".join(f"{one.text}\n" for one in (*former, head)))


def _size(path: Path) -> int:
    return path.stat().st_size


def say(line: str, *, error: bool = False) -> None:
    (sys.stderr if error else sys.stdout).write(line + "\n")
