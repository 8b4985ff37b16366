"""The sample's directory: what is in it, whether it is complete, and how it gets there in one piece.

DIR/v1/  DIR/v2/   two versions in Hugging Face layout
DIR/v3/            a bad one: the weights of v2 and a slipway.json, only when asked for
DIR/sample.json    recipe, figures and the sha256 of every file; written last
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MANIFEST = "sample.json"
BAD_SETTINGS: Mapping[str, Any] = {"serving": {"delay_ms": 300, "fail_share": 0.1, "after_requests": 10}}


@dataclass(frozen=True)
class SampleArtefacts:
    """A complete sample. `versions` maps v1, v2 and perhaps v3 to their directories, `figures` v1 and v2 to
    what their training came to."""

    versions: Mapping[str, Path]
    figures: Mapping[str, Any]


@contextlib.contextmanager
def alone_in(directory: Path) -> Iterator[None]:
    """Waits until no other process works on the sample in `directory`."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def fingerprint() -> str:
    """Return a hash of all that the artefacts depend on: the code that makes them, and this Python's text."""
    digest = hashlib.sha256(f"{sys.version_info[:2]}".encode())
    for name in ("artefacts.py", "corpus.py", "model.py", "train.py"):
        digest.update((Path(__file__).parent / name).read_bytes())
    return digest.hexdigest()


def find(directory: Path, names: tuple[str, ...], *, seconds: float) -> SampleArtefacts | None:
    """The sample, when every file of `names` is there as it was written, by this recipe, and it was not cut
    short by a smaller limit of seconds than this one."""
    try:
        manifest = json.loads((directory / MANIFEST).read_bytes())
        if manifest["fingerprint"] != fingerprint():
            return None
        if manifest["cut_short"] and manifest["seconds"] < seconds:
            return None
        for name in names:
            if hashes(directory / name) != manifest["files"][name]:
                return None
        return SampleArtefacts({name: directory / name for name in names}, manifest["figures"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def hashes(directory: Path) -> dict[str, str]:
    """Return the SHA-256 of every file below, by relative path."""
    return {
        path.relative_to(directory).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


@contextlib.contextmanager
def being_made(directory: Path) -> Iterator[Path]:
    """A scratch directory beside the artefacts; gone afterwards, whatever happens."""
    scratch = Path(tempfile.mkdtemp(prefix=".making-", dir=directory))
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def publish(
    scratch: Path, directory: Path, names: tuple[str, ...], *, figures: Any, seconds: float, cut_short: bool
) -> SampleArtefacts:
    """Moves the versions into place. Until the manifest is there at the end, `find` sees nothing."""
    (directory / MANIFEST).unlink(missing_ok=True)
    for name in names:
        shutil.rmtree(directory / name, ignore_errors=True)
        for path in (scratch / name).iterdir():
            path.chmod(0o644)  # safetensors writes for its owner alone
        (scratch / name).rename(directory / name)
    manifest = {
        "fingerprint": fingerprint(),
        "seconds": seconds,
        "cut_short": cut_short,
        "figures": figures,
        "files": {name: hashes(directory / name) for name in names},
    }
    draft = scratch / MANIFEST
    draft.write_text(json.dumps(manifest, indent=2))
    with draft.open("rb") as handle:
        os.fsync(handle.fileno())
    draft.replace(directory / MANIFEST)
    return SampleArtefacts({name: directory / name for name in names}, figures)
