"""Collection of what no version needs."""

import hashlib
import os
import time
from collections.abc import Sequence
from pathlib import Path

from perf.registry.table import heading, line, timed

LIMIT, AGAIN_LIMIT = 20.0, 5.0
"""Times what the disk alone takes: for a run that deletes half, and for one that finds nothing to delete."""


def measure(blobs: int) -> None:
    from django.conf import settings
    from django.db import connection

    from common.actor import Actor
    from common.reconcile import kernel
    from model_store.models import Collection
    from model_store.services import begin_collection

    store = Path(settings.SLIPWAY_STORE_DIR)
    names = [hashlib.sha256(str(number).encode()).hexdigest() for number in range(blobs)]
    for part in range(256):
        (store / f"blobs/sha256/{part:02x}").mkdir(parents=True)
    for name in names:
        (store / "blobs/sha256" / name[:2] / name).write_bytes(b"x" * 100)
    needed_by_a_version(names[::2])

    def collected() -> tuple[float, Collection]:
        began = time.monotonic()
        row = begin_collection(actor=Actor.system("perf"), grace_seconds=0)
        while kernel.advance("model_store.collection", row.pk):
            pass
        row.refresh_from_db()
        assert row.state == "done", row.last_error
        return time.monotonic() - began, row

    alone = _walked_and_deleted(store.parent / "alone", blobs)
    heading(f"Collection over {blobs:,} blobs on {connection.vendor}, every second one needed")
    first, row = collected()
    line("walking as many files and deleting half of them", f"{alone:.1f} s", "(the peer)")
    _beside("all: look, mark, delete", first, alone, LIMIT)
    line(
        "  blobs deleted by it",
        f"{row.deleted_blobs:,}",
        f"{blobs // 2:,}",
        holds=row.deleted_blobs == blobs // 2,
    )
    second, row = collected()
    _beside("again, with nothing to delete", second, alone, AGAIN_LIMIT)
    left = sum(len(files) for _, _, files in os.walk(store / "blobs"))
    line("  blobs left", f"{left:,}", f"{len(names[::2]):,}", holds=left == len(names[::2]))


def _beside(what: str, seconds: float, alone: float, limit: float) -> None:
    ratio = seconds / alone
    line(what, f"{seconds:.1f} s ({ratio:.1f} x)", f"<= {limit:g} x", holds=ratio <= limit)


def _walked_and_deleted(home: Path, count: int) -> float:
    """Seconds for what the disk alone takes."""
    for part in range(256):
        (home / f"{part:02x}").mkdir(parents=True)
    paths = [home / f"{number % 256:02x}" / str(number) for number in range(count)]
    for path in paths:
        path.write_bytes(b"x" * 100)

    def work() -> None:
        for path in home.rglob("*"):
            path.stat()
        for path in paths[::2]:
            path.unlink()

    return timed(work)


def needed_by_a_version(blobs: Sequence[str]) -> None:
    from django.utils import timezone

    from accounts.models import Team
    from models_registry.models import Model, Version, VersionFile

    model = Model.objects.create(team=Team.objects.create(name="perf"), name="perf")
    version = Version.objects.create(
        model=model,
        number=1,
        name="v1",
        state="ready",
        digest="0" * 64,
        ready_at=timezone.now(),
        file_count=len(blobs),
        is_held=False,
    )
    rows = (
        VersionFile(version=version, path=f"{number}.json", size=100, sha256=sha256, format="json")
        for number, sha256 in enumerate(blobs)
    )
    VersionFile.objects.bulk_create(rows, batch_size=1000)
