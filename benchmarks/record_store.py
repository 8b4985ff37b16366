"""Records of requests in the model store, by their hash."""

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from benchmarks.load.records import RECORDS_FILE
from benchmarks.models import BenchmarkRecords, BenchmarkRun
from benchmarks.states import RunState
from model_store.backends.base import Ingested
from model_store.blob_store import needed, store
from model_store.errors import StagingBusy
from model_store.file_manifest import FileManifest, ManifestFile
from model_store.references import References

STAGING = "benchmark-"


def keep(run_id: int, path: Path) -> Ingested | None:
    """Keep the file; None when there is no such file. Raises StoreUnavailable, StoreFull."""
    key = f"{STAGING}{run_id}"
    try:
        with path.open("rb") as file, store().staging(key) as staging:
            held = staging.take(file.fileno(), path.stat().st_size, counted=lambda _count: None)
    except FileNotFoundError:
        return None
    store().publish(key, FileManifest((ManifestFile(RECORDS_FILE, held.size, held.sha256),)))
    return held


def forget(run_id: int) -> None:
    """Remove the staging area, once its records are a row's."""
    with suppress(StagingBusy):
        store().discard(f"{STAGING}{run_id}", is_referenced=needed)


def _keys(keys: Collection[str]) -> set[str]:
    ids = [int(key.removeprefix(STAGING)) for key in keys if key.startswith(STAGING)]
    held = BenchmarkRun.objects.filter(
        pk__in=ids, state__in=(RunState.MEASURING, RunState.COLLECTING, RunState.REMOVING)
    )
    return {f"{STAGING}{pk}" for pk in held.values_list("pk", flat=True)}


RECORDS = References(rows=BenchmarkRecords.objects.all(), team="run__benchmark__team", keys=_keys)
