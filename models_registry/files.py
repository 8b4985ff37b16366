"""The files of versions: rows here, bytes in the store."""

from collections.abc import Collection
from pathlib import Path

from django.conf import settings

from models_registry.errors import WrongState
from models_registry.manifest import Manifest, ManifestFile
from models_registry.models import Version, VersionFile
from models_registry.states import HOLDS_BLOBS, VersionState
from models_registry.store import LocalStore, Store

_AT_ONCE = 500


def store() -> Store:
    """The store of this installation."""
    return LocalStore(Path(settings.SLIPWAY_STORE_DIR))


def manifest_of(version: Version) -> Manifest:
    """The manifest that the version's rows were made from."""
    rows = VersionFile.objects.filter(version=version.pk)
    files = (ManifestFile(*columns) for columns in rows.values_list("path", "size", "sha256", "format"))
    return Manifest(tuple(sorted(files, key=lambda file: file.path.encode())))


def materialise(version: Version) -> Path:
    """A directory with the version's files in Hugging Face layout, for a worker to read. Idempotent.

    Raises WrongState unless the version is ready, BlobMissing when the store has lost a file.
    """
    if version.state != VersionState.READY:
        raise WrongState(f"{version} is {version.state}, not ready: it has no files to serve.")
    return store().materialise(manifest_of(version))


def referenced(blobs: Collection[str]) -> set[str]:
    """Those of the sha256s that an importing or ready version needs."""
    listed = list(blobs)
    found: set[str] = set()
    for start in range(0, len(listed), _AT_ONCE):
        rows = VersionFile.objects.filter(
            sha256__in=listed[start : start + _AT_ONCE], version__state__in=HOLDS_BLOBS
        )
        found.update(rows.values_list("sha256", flat=True).distinct())
    return found
