"""The process that reads the facts of a version from its blobs, for versions from before facts were kept:
`python -m models_registry.processes.facts_backfill <store>`, with the files as JSON on its standard input.

Like those that `work`: no database, no settings, bounded memory; it writes nothing.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from models_registry.contents import Identified, identify
from models_registry.errors import BlobMissing, Refused
from models_registry.facts.summary import facts_of
from models_registry.file_manifest import Manifest, ManifestFile
from models_registry.processes.apart import CODE, environment
from models_registry.processes.job_runner import step_back
from models_registry.store import Store, opened_at

PATIENCE_SECONDS = 8.0
"""Headers take a second; a kernel step may take twenty."""
_READ = {"safetensors", "gguf"}


class NotReadable(Exception):
    """The facts cannot be had now; the message says why."""


def read_facts(address: str, manifest: Manifest) -> dict[str, Any]:
    """`details_of` of a version in the store of this address, read by a process of its own.

    Raises NotReadable.
    """
    files = json.dumps([asdict(file) for file in manifest.files])
    try:
        done = subprocess.run(
            [sys.executable, "-m", "models_registry.processes.facts_backfill", address],
            cwd=CODE,
            env=environment(address),
            input=files.encode(),
            capture_output=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NotReadable(f"Its headers took longer than {PATIENCE_SECONDS:.0f} s to read.") from None
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise NotReadable(f"Its headers cannot be read: {said[-1][:500] if said else done.returncode}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def details_of_files(store: Store, files: Sequence[ManifestFile]) -> dict[str, Any]:
    """What `details_of` makes of these files. Raises BlobMissing, Refused, OSError."""
    return facts_of([_identified(store, file) for file in files]).details


def _identified(store: Store, file: ManifestFile) -> Identified:
    is_told = file.path in ("config.json", "model.safetensors.index.json")
    if not is_told and file.format not in _READ:
        return Identified(file.path, file.format)
    with store.opened(file.sha256) as content:
        return identify(file.path, content)


def main(arguments: list[str]) -> int:
    step_back()
    files = [ManifestFile(**file) for file in json.load(sys.stdin)]
    try:
        json.dump(details_of_files(opened_at(arguments[0]), files), sys.stdout)
    except (BlobMissing, Refused, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
