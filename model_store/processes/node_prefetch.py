"""The job that fetches a version to this node.

Where the store is a bucket, 100 GB take longer than any task may. One job per version and node; what it has
fetched by the time it dies, the next one goes on from.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from common.errors import SlipwayError
from common.jobs.run import Running, read_json, run
from common.jobs.runners.base import JobRunner
from common.jobs.spec import BY_CIRCUMSTANCE, JobObservation, JobState, owner_of
from model_store.backends.base import BlobStore
from model_store.backends.opening import opened_at
from model_store.file_manifest import FileManifest, ManifestFile
from model_store.processes.job import job_spec

RETRY_AFTER_SECONDS = 10.0
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


def start(runner: JobRunner, store: BlobStore, manifest: FileManifest) -> str:
    """Begin to fetch, unless a job is at it. Returns why the last one has failed, until one succeeds.

    Raises NoRoomForJob.
    """
    owner = owner_of("node_prefetch", manifest.digest[:32])
    seen = {name: runner.observe(name) for name in runner.names(owner)}
    over = sorted(
        (name for name in seen if not seen[name].is_live),
        key=lambda name: seen[name].ended_at or _LONG_AGO,
    )
    last = over[-1] if over else ""
    said = _problem(seen[last]) if last else ""
    for name in over[:-1]:
        runner.remove(name)
    if len(over) < len(seen) or (said and _age_seconds(seen[last]) < RETRY_AFTER_SECONDS):
        return said
    runner.start(
        job_spec(
            "model_store.processes.node_prefetch",
            store.address,
            # Whoever finds the same last one starts the same next one.
            op_key=f"{manifest.digest} after {last}",  # untranslated
            owner=owner,
            store=store.address,
            # Megabytes at the most.
            stdin=json.dumps([asdict(file) for file in manifest.files]).encode(),
        )
    )
    return said


def _problem(seen: JobObservation) -> str:
    if seen.state is JobState.SUCCEEDED:
        return str((seen.result or {}).get("problem", ""))
    return "" if seen.ending in BY_CIRCUMSTANCE else f"{seen.why} {seen.last_words}".strip()


def _age_seconds(seen: JobObservation) -> float:
    return (datetime.now(UTC) - (seen.ended_at or _LONG_AGO)).total_seconds()


def fetch(address: str, manifest: FileManifest) -> Mapping[str, Any]:
    try:
        opened_at(address).materialise(manifest)
    except (SlipwayError, OSError) as error:
        return {"problem": str(error)}
    return {}


def main(arguments: list[str]) -> int:
    def inside(_: Running) -> Mapping[str, Any]:
        return fetch(arguments[0], FileManifest(tuple(ManifestFile(**file) for file in read_json())))

    return run(inside)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
