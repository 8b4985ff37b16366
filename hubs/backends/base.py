"""What the registry asks of a model hub, in our words."""

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar, Protocol

from common.errors import SlipwayError


class HubError(SlipwayError):
    """A hub does not give what was asked for; the message says why and what to do."""

    cause: ClassVar[str] = ""
    """One of `states.Cause`, where programs have use for it."""


class AccessRefused(HubError):
    """The hub does not give it to this token, or to nobody without one; it may to another."""


class NoSuchRepository(AccessRefused):
    """There is none of this name, or it is private and the token gives no access to it."""

    cause = "no_repository"


class NoSuchRevision(HubError):
    """The repository has no such branch, tag or commit."""

    cause = "no_revision"


class NoSuchFile(HubError):
    """The revision listed the file and does not have it."""

    cause = "changed"


class RepositoryGated(AccessRefused):
    """Its owner asks for conditions to be accepted first."""

    cause = "gated"


class HubTokenRefused(AccessRefused):
    """The hub does not accept the token."""

    cause = "bad_token"


class MayNotWrite(HubError):
    """The hub knows the token, which may not write there."""


class HubStorageFull(HubError):
    """The hub's owner has no space left for it."""


class BranchMoved(HubError):
    """Somebody else has committed since the branch was looked at."""


class RateLimited(HubError):
    """Too many requests: the hub says when to come again."""

    cause = "rate_limited"

    def __init__(self, retry_after_s: float) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(f"The hub asks to wait {math.ceil(retry_after_s)} s: too many requests (429).")


class HubUnreachable(HubError):
    """The hub does not answer, breaks off or has a fault of its own; the same request may succeed later."""

    cause = "unreachable"


class NameUnresolved(HubUnreachable):
    """Its name has no address at present: most often it is misspelt, and waiting does not help."""


class HubMisbehaves(HubError):
    """Its answer contradicts itself or what it said before."""

    cause = "misbehaves"


class RevisionChanged(HubMisbehaves):
    """The hub answers from another commit than the one that is fetched."""

    cause = "changed"


class AddressForbidden(HubError):
    """The request leads to an address that this server must not talk to."""

    cause = "address_forbidden"


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file of a revision: size in bytes, and the hash that the hub vouches for, in lower-case hex.

    Large files (LFS) have a `sha256`; of the others the hub knows git's `blob_id` only.
    """

    path: str
    size: int
    sha256: str = ""
    blob_id: str = ""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A revision, resolved: its commit never changes, and these are all its files."""

    commit: str
    files: tuple[HubFile, ...]


@dataclass(frozen=True, slots=True)
class FileStream:
    """Bytes of a file from `start` on: where they were asked from, or 0 when the hub cannot do that."""

    start: int
    chunks: Iterator[bytes]


class HubClient(Protocol):
    def commit_of(self, repo_id: str, revision: str) -> str:
        """Return the commit that a branch, tag or commit stands for now, within a minute. Raises HubError."""

    def snapshot(self, repo_id: str, revision: str) -> Snapshot:
        """Return the files of a branch, tag or commit as they are now. Raises HubError."""

    def opened(
        self, repo_id: str, commit: str, file: HubFile, *, offset: int = 0, length: int | None = None
    ) -> AbstractContextManager[FileStream]:
        """`length` bytes of a file from `offset` on; None: all there are.

        Raises HubError, also while the chunks are read; `chunks` may end early. Safe from several threads.
        """
