"""What to fetch from a hub, as plain data."""

from dataclasses import dataclass
from typing import ClassVar

PATIENCE_SECONDS = 300.0
"""For a hub that gives nothing: then the sync rests until somebody resumes it."""


@dataclass(frozen=True, slots=True)
class RepositorySource:
    """`revision` of a repository: the files that match one of `allow_patterns` (none: all) and none of
    `ignore_patterns`. `trusted_hosts` (`name:port`) may be asked though they are not public. For
    `admits_runnable` see `trust.formats.identification.identify`.
    """

    PROGRAM: ClassVar[str] = "hubs.processes.hub_download"
    NEEDS_NETWORK: ClassVar[bool] = True

    endpoint: str
    repo_id: str
    revision: str
    allow_patterns: tuple[str, ...] = ()
    ignore_patterns: tuple[str, ...] = ()
    trusted_hosts: tuple[str, ...] = ()
    patience_seconds: float = PATIENCE_SECONDS
    admits_runnable: bool = False
    kind: str = "huggingface"
    """Which protocol the hub speaks; see `kinds`."""
