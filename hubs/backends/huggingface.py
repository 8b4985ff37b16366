"""The protocol of the Hugging Face hub and of its mirrors.

https://huggingface.co/docs/hub/api and huggingface_hub/utils/_http.py, which tells its errors apart by
`X-Error-Code` and `X-Error-Message`.
"""

import re
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import quote

import httpx2
import orjson

from common.outbound.client import whole_body
from hubs.backends.base import (
    FileStream,
    HubFile,
    HubMisbehaves,
    HubTokenRefused,
    HubUnreachable,
    NoSuchFile,
    NoSuchRepository,
    NoSuchRevision,
    RateLimited,
    RepositoryGated,
    RevisionChanged,
    Snapshot,
)
from hubs.backends.connection import HubConnection
from hubs.backends.responses import part_headers, stream_of, wait_seconds
from model_store.paths import printable

MAX_LISTING_BYTES = 16 * 1024 * 1024
"""20,000 files, the most that a version may have, take some 8 MB."""
LISTING_SECONDS = 45.0

_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")

T = TypeVar("T")


class HuggingFace:
    """See `HubClient`. `token` goes to the endpoint only, never to where it redirects."""

    def __init__(self, endpoint: str, *, token: str = "", trusted_hosts: Collection[str] = ()) -> None:
        self._endpoint = endpoint.rstrip("/")
        self._secret_headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._connection = HubConnection(trusted_hosts=trusted_hosts)

    def commit_of(self, repo_id: str, revision: str) -> str:
        return self._asked(repo_id, revision, "", _commit)

    def snapshot(self, repo_id: str, revision: str) -> Snapshot:
        return self._asked(repo_id, revision, "?blobs=true", _snapshot)

    def _asked(self, repo_id: str, revision: str, query: str, read: Callable[[Any], T]) -> T:
        url = f"{self._endpoint}/api/models/{quote(repo_id)}/revision/{quote(revision, safe='')}{query}"
        with self._connection.get(url, secret_headers=self._secret_headers, headers={}) as answers:
            self._check(answers[-1], repo_id, revision)
            body = whole_body(answers[-1], limit_bytes=MAX_LISTING_BYTES, limit_seconds=LISTING_SECONDS)
        try:
            return read(orjson.loads(body))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise HubMisbehaves(
                f"{self._endpoint} does not answer like a Hugging Face hub. Check the endpoint."
            ) from None

    @contextmanager
    def opened(
        self, repo_id: str, commit: str, file: HubFile, *, offset: int = 0, length: int | None = None
    ) -> Iterator[FileStream]:
        url = f"{self._endpoint}/{quote(repo_id)}/resolve/{commit}/{quote(file.path)}"
        headers = part_headers(file, offset=offset, length=length)
        with self._connection.get(url, secret_headers=self._secret_headers, headers=headers) as answers:
            for answer in answers:
                _check_promises(answer, commit, file)
            answer = answers[-1]
            self._check(answer, repo_id, commit, path=file.path)
            yield stream_of(answer, file, offset=offset)

    def _check(self, answer: httpx2.Response, repo_id: str, revision: str, *, path: str = "") -> None:
        """Raises what the status means, in words for the person who asked."""
        status = answer.status_code
        if status in (200, 206):
            return
        code = answer.headers.get("X-Error-Code", "")
        words = printable(answer.headers.get("X-Error-Message", ""))[:300]
        where = f"{repo_id} on {self._endpoint}"
        if status == 429:
            raise RateLimited(wait_seconds(answer))
        if code == "GatedRepo":
            raise RepositoryGated(
                f"{where} is gated: its owner asks for conditions to be accepted. Accept them there as the "
                "owner of the token, and give the token to this source."
            )
        if code == "RevisionNotFound":
            raise NoSuchRevision(f"{where} has no revision {revision}. It may have been renamed or removed.")
        if code == "EntryNotFound" or (path and status == 404 and not code):
            raise NoSuchFile(f"{where} lists {printable(path)} at {revision[:12]} but does not have it.")
        if status == 401 and "invalid" in words.lower():
            raise HubTokenRefused(
                f"{self._endpoint} does not accept the token: {words.rstrip('.')}. Store a new one."
            )
        if code == "RepoNotFound" or status in (401, 404):
            hint = "its token does not open it" if self._secret_headers else "it needs a token"
            raise NoSuchRepository(f"There is no repository {where}, or it is private and {hint}.")
        if status == 403:
            raise HubTokenRefused(f"{self._endpoint} forbids reading {repo_id}. {words}".strip())
        if status >= 500 or status == 408:
            raise HubUnreachable(f"{self._endpoint} has a fault of its own (HTTP {status}). {words}".strip())
        raise HubMisbehaves(f"{self._endpoint} answers HTTP {status} for {repo_id}. {words}".strip())


def _commit(data: Any) -> str:
    commit: str = data["sha"]
    if not _COMMIT.fullmatch(commit):
        raise ValueError("commit")
    return commit


def _snapshot(data: Any) -> Snapshot:
    return Snapshot(_commit(data), tuple(_file(entry) for entry in data["siblings"]))


def _file(entry: dict[str, Any]) -> HubFile:
    lfs = entry.get("lfs") or {}
    sha256, size = lfs.get("sha256", ""), lfs.get("size", entry.get("size"))
    blob_id = "" if sha256 else entry["blobId"]
    if not isinstance(entry["rfilename"], str) or not isinstance(size, int) or not 0 <= size < 2**50:
        raise ValueError("file")
    if not (_SHA256.fullmatch(sha256) if sha256 else _COMMIT.fullmatch(blob_id)):
        raise ValueError("hash")
    return HubFile(entry["rfilename"], size, sha256, blob_id)


def _check_promises(answer: httpx2.Response, commit: str, file: HubFile) -> None:
    """Compare a file's headers with the listing before a byte of it is taken."""
    told = answer.headers.get("X-Repo-Commit")
    if told and told != commit:
        raise RevisionChanged(
            f"The hub answers {printable(file.path)} from commit {printable(told)[:12]} instead of "
            f"{commit[:12]}: the revision was changed during the sync. Sync again."
        )
    size = answer.headers.get("X-Linked-Size")
    if size and size != str(file.size):
        raise HubMisbehaves(
            f"The hub lists {printable(file.path)} with {file.size:,} bytes and now says "
            f"{printable(size)[:20]}. Sync again; if it stays so, the hub is at fault."
        )
    etag = answer.headers.get("X-Linked-Etag", "").removeprefix("W/").strip('"')
    if etag and file.sha256 and etag != file.sha256:
        raise HubMisbehaves(
            f"The hub lists {printable(file.path)} with sha256 {file.sha256[:12]}… and now offers "
            f"{printable(etag)[:12]}…. Sync again; if it stays so, the hub is at fault."
        )
