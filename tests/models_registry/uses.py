"""Somebody above the registry who needs a version."""

from models_registry.models import Version, VersionMove
from models_registry.states import VersionState
from models_registry.uses import UseCheck, Uses


def used_by(version: Version | None, words: str) -> UseCheck:
    """A check that tells of one use of the version; None: of none."""
    # Any row of which a version has one.
    rows = VersionMove.objects.filter(version=version, to_state=VersionState.IMPORTING)
    return lambda: Uses(rows, "version", words)
