"""The job that reads the facts of a version from its blobs, for versions from before facts were kept.

Like those of `job_runner`: no database, no settings, bounded memory; it writes nothing.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from common.jobs.run import Running, read_json, run
from common.jobs.spec import JobSpec
from model_store.backends.base import BlobStore
from model_store.backends.opening import opened_at
from model_store.errors import BlobMissing, FileRefused
from model_store.file_manifest import FileManifest, ManifestFile
from model_store.processes.job import job_spec
from trust.formats.identification import IdentifiedFile, identify
from trust.formats.summary import facts_of

WALL_SECONDS = 120.0
"""Headers take a second, and some more from a bucket."""
_READ = {"safetensors", "gguf"}


def spec(address: str, manifest: FileManifest, *, op_key: str, owner: str) -> JobSpec:
    """Its result holds `details_of` of a version in the store of this address, or a `problem`."""
    return job_spec(
        "models_registry.importing.facts_backfill",
        address,
        op_key=op_key,
        owner=owner,
        store=address,
        stdin=json.dumps([asdict(file) for file in manifest.files]).encode(),
        wall_seconds=WALL_SECONDS,
    )


def read_facts(address: str, files: Sequence[ManifestFile]) -> dict[str, Any]:
    try:
        return {"details": details_of_files(opened_at(address), files)}
    except (BlobMissing, FileRefused, OSError) as error:
        return {"problem": str(error)}


def details_of_files(store: BlobStore, files: Sequence[ManifestFile]) -> dict[str, Any]:
    """Return `details_of` for these files. Raises BlobMissing, FileRefused, OSError."""
    return facts_of([_identified(store, file) for file in files]).details


def _identified(store: BlobStore, file: ManifestFile) -> IdentifiedFile:
    is_told = file.path in ("config.json", "model.safetensors.index.json")
    if not is_told and file.format not in _READ:
        return IdentifiedFile(file.path, file.format)
    with store.opened(file.sha256) as content:
        return identify(file.path, content)


def main(arguments: list[str]) -> int:
    def inside(_: Running) -> Mapping[str, Any]:
        return read_facts(arguments[0], [ManifestFile(**file) for file in read_json()])

    return run(inside)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
