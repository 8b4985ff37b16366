"""The process that fetches a version to this node: `python -m models_registry.bringing '<job>'`.

Where the store is a bucket, 100 GB take longer than any task may. One process per version and node: a second
one finds the lock taken and ends. What it has fetched by the time it dies, the next one goes on from.
"""

import json
import os
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from common.errors import SlipwayError
from models_registry import importer
from models_registry.errors import IntakeBusy
from models_registry.manifest import Manifest, ManifestFile
from models_registry.store import Store, locks, opened_at

LOOK_EVERY_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class _Job:
    store: str
    lock: str
    guardian_pid: int
    guardian_started: float


def start(store: Store, manifest: Manifest, *, log_dir: Path) -> str:
    """Begin to fetch, unless a process is at it. Returns how the last one ended, if that was badly."""
    log = log_dir / "imports" / f"node-{manifest.digest}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    lock = log.with_suffix(".lock")
    if locks.is_held(lock):
        return ""
    said = _last_words(log)
    guardian = importer.guardian()
    job = _Job(store.address, str(lock), guardian.pid, guardian.create_time())
    importer.run_apart(
        [sys.executable, "-m", "models_registry.bringing", json.dumps(asdict(job))],
        store=store.address,
        log=log,
        # Megabytes at the most; the process reads them first of all.
        given=json.dumps([asdict(file) for file in manifest.files]).encode(),
    )
    return said


def _last_words(log: Path) -> str:
    try:
        lines = log.read_text(errors="replace").strip().splitlines()
    except FileNotFoundError:
        return ""
    return f" The last try has failed: {lines[-1][:500]}" if lines else ""


def main(arguments: list[str]) -> int:
    job = _Job(**json.loads(arguments[0]))
    manifest = Manifest(tuple(ManifestFile(**file) for file in json.load(sys.stdin)))
    os.nice(10)
    threading.Thread(target=_watch, args=(job,), daemon=True).start()
    try:
        with locks.held(Path(job.lock), wait=False, remove=True):
            opened_at(job.store).materialise(manifest)
    except IntakeBusy:
        return importer.EXIT_BUSY
    except (SlipwayError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _watch(job: _Job) -> None:
    found = importer.guardian_of(job)
    while found is not None and importer.is_alive(found):
        time.sleep(LOOK_EVERY_SECONDS)
    os._exit(importer.EXIT_STOPPED)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
