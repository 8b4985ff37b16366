"""Where a version is exported to, as plain data."""

from dataclasses import dataclass
from typing import ClassVar

from hubs.source import PATIENCE_SECONDS


@dataclass(frozen=True, slots=True)
class RepositoryTarget:
    """A branch of a repository. `title` and `description` are the commit's words; the description ends with
    `marker`, by which the commit is known again. With `creates`, a repository or branch that is missing is
    made, a repository with `is_private`. `trusted_hosts` (`name:port`) may be asked though not public.
    """

    PROGRAM: ClassVar[str] = "hubs.processes.export"
    NEEDS_NETWORK: ClassVar[bool] = True

    endpoint: str
    repo_id: str
    branch: str
    title: str
    description: str
    marker: str
    creates: bool = False
    is_private: bool = True
    trusted_hosts: tuple[str, ...] = ()
    patience_seconds: float = PATIENCE_SECONDS


@dataclass(frozen=True, slots=True)
class SlipwayTarget:
    """A model on another Slipway. `message` and `lineage` are what its version tells; with `creates`, a model
    that is missing is made, for `task`.
    """

    PROGRAM: ClassVar[str] = "hubs.processes.export"
    NEEDS_NETWORK: ClassVar[bool] = True

    endpoint: str
    model: str
    message: str
    origin: str
    lineage: dict[str, str]
    task: str = ""
    creates: bool = False
    trusted_hosts: tuple[str, ...] = ()
    patience_seconds: float = PATIENCE_SECONDS
