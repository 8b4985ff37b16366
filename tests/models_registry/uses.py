"""Somebody above the registry who needs a version."""

from models_registry.models import Version, VersionMove
from models_registry.references import VersionReferences
from models_registry.states import VersionState


def used_by(version: Version, words: str) -> VersionReferences:
    """Return one use of the version."""
    # Any row of which a version has one.
    rows = VersionMove.objects.filter(version=version, to_state=VersionState.IMPORTING)
    return VersionReferences(rows, "version", "version__model", words)
