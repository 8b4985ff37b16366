"""What a step does with the store once an import was accepted: `python -m ... ADDRESS KEY NEEDED`.

It publishes the version, brings it to this node, lets go of the intake and reclaims whatever is not `NEEDED`,
a JSON list of sha256s. Nothing in it waits for a database, so it can be killed anywhere.
"""

import json
import sys
from collections.abc import Collection

from models_registry.file_manifest import Manifest
from models_registry.importing.results import ImportResult
from models_registry.processes.job import RESULT
from models_registry.store import Store, opened_at


def accepted(store: Store, key: str) -> Manifest:
    note = json.loads(store.read_note(key, RESULT) or b"")
    del note["attempt"]
    return ImportResult.from_json(note).manifest


def main(address: str, key: str, needed: str) -> None:
    store, kept = opened_at(address), set(json.loads(needed))

    def is_referenced(blobs: Collection[str]) -> set[str]:
        return kept.intersection(blobs)

    manifest = accepted(store, key)
    store.publish(key, manifest)
    store.materialise(manifest)
    store.discard(key, is_referenced=set)
    store.dematerialise(manifest.digest)
    store.reclaim({file.sha256 for file in manifest.files}, is_referenced=is_referenced)


if __name__ == "__main__":
    main(*sys.argv[1:])
