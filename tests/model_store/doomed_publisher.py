"""What a step does with the store once an import was accepted: `python -m ... ADDRESS KEY NEEDED RESULT`.

It publishes the version, brings it to this node, lets go of the staging area and reclaims whatever is not
`NEEDED`, a JSON list of sha256s. `RESULT`: a file with that of the import. Nothing in it waits for a
database: it can be killed anywhere.
"""

import json
import sys
from collections.abc import Collection
from pathlib import Path

from model_store.backends.opening import opened_at
from models_registry.importing.results import ImportResult


def main(address: str, key: str, needed: str, result: str) -> None:
    store, kept = opened_at(address), set(json.loads(needed))

    def is_referenced(blobs: Collection[str]) -> set[str]:
        return kept.intersection(blobs)

    manifest = ImportResult.from_json(json.loads(Path(result).read_bytes())).manifest
    store.publish(key, manifest)
    store.materialise(manifest)
    store.discard(key, is_referenced=set)
    store.dematerialise(manifest.digest)
    store.reclaim({file.sha256 for file in manifest.files}, is_referenced=is_referenced)


if __name__ == "__main__":
    main(*sys.argv[1:])
