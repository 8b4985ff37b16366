"""The process that fetches a version to this node.

Where the store is a bucket, 100 GB take longer than any task may. One process per version and node: a second
one finds the lock taken and ends. What it has fetched by the time it dies, the next one goes on from.
"""

import json
import math
import os
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from common.errors import SlipwayError
from models_registry.errors import IntakeBusy
from models_registry.file_manifest import Manifest, ManifestFile
from models_registry.processes import guardian
from models_registry.processes.apart import run_apart
from models_registry.processes.job_runner import EXIT_BUSY, EXIT_STOPPED
from models_registry.store import Store, locks, opened_at

LOOK_EVERY_SECONDS = 0.5
RETRY_AFTER_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class _Job:
    store: str
    lock: str
    failed: str
    guardian_pid: int
    guardian_started: float


def start(store: Store, manifest: Manifest, *, log_dir: Path) -> str:
    """Begin to fetch, unless a process is at it. Returns why the last try has failed, until one succeeds."""
    log = log_dir / "imports" / f"node-{manifest.digest}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    lock, failed = log.with_suffix(".lock"), log.with_suffix(".failed")
    said, age_seconds = _last_failure(failed)
    if locks.is_held(lock) or age_seconds < RETRY_AFTER_SECONDS:
        return said
    stack = guardian.present()
    job = _Job(store.address, str(lock), str(failed), stack.pid, stack.create_time())
    run_apart(
        [sys.executable, "-m", "models_registry.processes.node_prefetch", json.dumps(asdict(job))],
        store=store.address,
        log=log,
        # Megabytes at the most; the process reads them first of all.
        given=json.dumps([asdict(file) for file in manifest.files]).encode(),
    )
    return said


def _last_failure(failed: Path) -> tuple[str, float]:
    """What was said, and how long ago."""
    try:
        return failed.read_text(errors="replace"), time.time() - failed.stat().st_mtime
    except FileNotFoundError:
        return "", math.inf


def main(arguments: list[str]) -> int:
    job = _Job(**json.loads(arguments[0]))
    manifest = Manifest(tuple(ManifestFile(**file) for file in json.load(sys.stdin)))
    os.nice(10)
    threading.Thread(target=_watch, args=(job,), daemon=True).start()
    try:
        with locks.held(Path(job.lock), wait=False, remove=True):
            try:
                opened_at(job.store).materialise(manifest)
            except (SlipwayError, OSError) as error:
                Path(job.failed).write_text(str(error))
                return 1
            Path(job.failed).unlink(missing_ok=True)
    except IntakeBusy:
        return EXIT_BUSY
    return 0


def _watch(job: _Job) -> None:
    found = guardian.of(job)
    while guardian.is_alive(found):
        time.sleep(LOOK_EVERY_SECONDS)
    os._exit(EXIT_STOPPED)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
