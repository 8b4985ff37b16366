"""What has happened to models, versions and aliases: told after the commit, ids only."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModelCreated:
    model_id: int


@dataclass(frozen=True, slots=True)
class ModelChanged:
    model_id: int


@dataclass(frozen=True, slots=True)
class ModelDeleted:
    model_id: int


@dataclass(frozen=True, slots=True)
class VersionImporting:
    """An import began, or begins again."""

    version_id: int


@dataclass(frozen=True, slots=True)
class VersionReady:
    version_id: int


@dataclass(frozen=True, slots=True)
class VersionArchived:
    version_id: int


@dataclass(frozen=True, slots=True)
class VersionRestored:
    """An archived version is ready again."""

    version_id: int


@dataclass(frozen=True, slots=True)
class VersionRefused:
    version_id: int


@dataclass(frozen=True, slots=True)
class VersionFailed:
    version_id: int


@dataclass(frozen=True, slots=True)
class VersionDeleted:
    version_id: int


@dataclass(frozen=True, slots=True)
class AliasMoved:
    """`to_version_id` is None when the alias was deleted."""

    model_id: int
    alias: str
    from_version_id: int | None
    to_version_id: int | None
    move_id: int
