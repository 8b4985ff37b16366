"""What has happened to the store: told after the commit."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BlobRepaired:
    """It was damaged or missing. The directories of the versions that need it are to be made anew."""

    sha256: str
