"""Events of the store, published after the commit."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BlobRepaired:
    """A damaged or missing blob is whole again. Directories of the versions that need it are to be made
    anew.
    """

    sha256: str
