"""What a run writes on its host: the recipe's output, imported like any directory, and scores."""

import shutil
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.conf import settings
from django.utils.translation import gettext as _

from model_store.backends.base import Ingested
from model_store.blob_store import needed, store
from model_store.errors import StagingBusy
from model_store.file_manifest import FileManifest, ManifestFile
from model_store.references import References
from models_registry.errors import SourceNotAllowed
from models_registry.importing.directory import DirectorySource
from models_registry.models import Model, Version
from optimization import job_results
from optimization.models import AccuracyCheck, OptimizationRun
from optimization.programs.scoring import SCORES
from optimization.states import OptimizationState

STAGING = "optimization-"


S = OptimizationState


def root() -> Path:
    return Path(settings.SLIPWAY_HOME) / "optimization"


def directory_of(row: OptimizationRun) -> Path:
    return root() / str(row.pk)


def remove_directory(row: OptimizationRun) -> None:
    shutil.rmtree(directory_of(row), ignore_errors=True)


def source_of(row: OptimizationRun) -> dict[str, Any]:
    """Return the source of the version that is made of the output; see `Version.source`."""
    return {
        "kind": OptimizationOutputs.name,
        "uri": f"optimization://{row.pk}",
        "run": row.pk,
        "host": row.made["host"],
        "ignore_patterns": [],
    }


class OptimizationOutputs:
    """Outputs of recipes as sources of versions; see `sources.SourceKind`. No code and no pickle passes."""

    name = "optimization"
    scheme = "optimization"

    def named(self, model: Model, text: str, *, ignore_patterns: Sequence[str]) -> dict[str, Any]:
        raise SourceNotAllowed(_("The output of a recipe becomes a version by itself."))

    def still_allowed(self, version: Version) -> dict[str, Any]:
        if not (root() / str(version.source["run"]) / "output").is_dir():
            raise SourceNotAllowed(_("The output of the recipe is gone. Start it again."))
        found: dict[str, Any] = version.source
        return found

    def reading(self, source: dict[str, Any], *, admits_runnable: bool) -> DirectorySource:
        return DirectorySource(str(root()), f"{source['run']}/output")

    def secret(self, source: dict[str, Any]) -> str:
        return ""


def keep_scores(row: OptimizationRun) -> Ingested:
    """Keep the scores in the model store. Raises StoreUnavailable, StoreFull, FileNotFoundError."""
    path, key = directory_of(row) / SCORES, f"{STAGING}{row.pk}"
    with path.open("rb") as file, store().staging(key) as staging:
        held = staging.take(file.fileno(), path.stat().st_size, counted=lambda _count: None)
    store().publish(key, FileManifest((ManifestFile(SCORES, held.size, held.sha256),)))
    return held


def forget_staging(row: OptimizationRun) -> None:
    """Remove the staging area, once the scores are a row's."""
    with suppress(StagingBusy):
        store().discard(f"{STAGING}{row.pk}", is_referenced=needed)


def _keys(keys: Collection[str]) -> set[str]:
    """Return the keys of scores that are being kept, and of what jobs in clusters have handed in."""
    ids = {key: int(key.rpartition("-")[2]) for key in keys if key.startswith(STAGING)}
    held = OptimizationRun.objects.filter(pk__in=ids.values(), is_held=True)
    working = {S.RUNNING, S.STORING, S.CHECKING}
    states = dict(held.values_list("pk", "state"))
    return {
        key
        for key, pk in ids.items()
        if states.get(pk) in (working if key.startswith(job_results.STAGING) else {S.CHECKING})
    }


SCORES_KEPT = References(rows=AccuracyCheck.objects.all(), team="run__team", keys=_keys)
