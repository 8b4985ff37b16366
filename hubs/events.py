"""What has happened between versions and hubs: told after the commit, ids only."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class VersionExported:
    """A version has been exported."""

    version_id: int
    export_id: int
