"""The protocol of ModelScope, https://www.modelscope.cn.

As its client speaks it (`_legacy_api.py`, `_download.py` and `errors.py` of modelscope_hub 0.x): answers are
wrapped in `{"Code", "Success", "Message", "Data"}`, and a token goes along as a header and as a cookie, since
older endpoints know only the cookie. Traps: a revision that does not exist is answered with 200 and no list
of files; a list ends at 3,000 entries without a word; the head of a branch is told by its first eight digits,
and in full only at the files that it changed.
"""

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urlencode

import httpx2
import orjson

from common.outbound.client import whole_body
from hubs.backends.base import (
    FileStream,
    HubError,
    HubFile,
    HubMisbehaves,
    HubTokenRefused,
    HubUnreachable,
    NoSuchFile,
    NoSuchRepository,
    NoSuchRevision,
    RateLimited,
    RepositoryGated,
    Snapshot,
)
from hubs.backends.connection import HubConnection
from hubs.backends.responses import part_headers, stream_of, wait_seconds
from model_store.paths import printable

MAX_LISTING_BYTES = 16 * 1024 * 1024
MAX_REFUSAL_BYTES = 64 * 1024
LISTING_SECONDS = 45.0
MAX_ENTRIES = 3_000
"""More the hub does not list, directories included, and it does not say that it left some out."""

_COMMIT = re.compile(r"[0-9a-f]{8,40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_BAD_TOKEN = 10010103009
"""Code of "AccessToken is invalid or expired", which comes with status 400."""
_STATUSES = {10010205001: 404}
"""Codes that come in place of a status: "record not found"."""


class ModelScope:
    """See `HubClient`. `token` goes to the endpoint only, never to where it redirects."""

    def __init__(self, endpoint: str, *, token: str = "", trusted_hosts: Collection[str] = ()) -> None:
        self._endpoint = endpoint.rstrip("/")
        self._secret_headers = (
            {"Authorization": f"Bearer {token}", "Cookie": f"m_session_id={token}"} if token else {}
        )
        self._connection = HubConnection(trusted_hosts=trusted_hosts)

    def commit_of(self, repo_id: str, revision: str) -> str:
        return self.snapshot(repo_id, revision).commit

    def snapshot(self, repo_id: str, revision: str) -> Snapshot:
        query = urlencode({"Revision": revision, "Recursive": "True"})
        url = f"{self._endpoint}/api/v1/models/{quote(repo_id)}/repo/files?{query}"
        with self._connection.get(url, secret_headers=self._secret_headers, headers={}) as answers:
            self._check(answers[-1], repo_id)
            body = whole_body(answers[-1], limit_bytes=MAX_LISTING_BYTES, limit_seconds=LISTING_SECONDS)
        try:
            answer = orjson.loads(body)
            if answer["Code"] != 200:
                raise self._meant(_STATUSES.get(answer["Code"], answer["Code"]), answer, repo_id)
            data = answer["Data"]
            if not data["Files"] and not data.get("LatestCommitter"):
                raise NoSuchRevision(
                    f"{repo_id} on {self._endpoint} has no revision {revision}. ModelScope's default branch "
                    "is master, not main."
                )
            snapshot = _snapshot(data)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise HubMisbehaves(
                f"{self._endpoint} does not answer like ModelScope. Check the endpoint."
            ) from None
        if len(data["Files"]) >= MAX_ENTRIES:
            raise HubMisbehaves(
                f"{repo_id} holds {MAX_ENTRIES:,} files and directories or more. ModelScope lists no more, "
                "so that nobody can tell whether some are missing."
            )
        return snapshot

    @contextmanager
    def opened(
        self, repo_id: str, commit: str, file: HubFile, *, offset: int = 0, length: int | None = None
    ) -> Iterator[FileStream]:
        query = urlencode({"Revision": commit, "FilePath": file.path})
        url = f"{self._endpoint}/api/v1/models/{quote(repo_id)}/repo?{query}"
        headers = part_headers(file, offset=offset, length=length)
        with self._connection.get(url, secret_headers=self._secret_headers, headers=headers) as answers:
            answer = answers[-1]
            self._check(answer, repo_id, path=file.path)
            yield stream_of(answer, file, offset=offset)

    def _check(self, answer: httpx2.Response, repo_id: str, *, path: str = "") -> None:
        """Raises what the status, or the code in its body, means."""
        if answer.status_code in (200, 206):
            return
        if answer.status_code == 429:
            raise RateLimited(wait_seconds(answer))
        body = whole_body(answer, limit_bytes=MAX_REFUSAL_BYTES, limit_seconds=LISTING_SECONDS)
        try:
            told = orjson.loads(body)
        except ValueError:
            told = {}
        raise self._meant(answer.status_code, told if isinstance(told, dict) else {}, repo_id, path=path)

    def _meant(self, status: int, told: dict[str, Any], repo_id: str, *, path: str = "") -> HubError:
        words = printable(str(told.get("Message", "")))[:300]
        where = f"{repo_id} on {self._endpoint}"
        if told.get("Code") == _BAD_TOKEN or (status == 401 and self._secret_headers):
            why = words.rstrip(".") or f"HTTP {status}"
            return HubTokenRefused(f"{self._endpoint} does not accept the token: {why}. Store a new one.")
        if status == 403:
            return RepositoryGated(
                f"{where} is gated: the hub asks for conditions to be accepted or for membership. Accept "
                f"them there as the owner of the token, and give the token to this source. {words}".strip()
            )
        if path and status == 404:
            return NoSuchFile(f"{where} lists {printable(path)} but does not have it.")
        if status in (401, 404):
            hint = "its token does not open it" if self._secret_headers else "it needs a token"
            return NoSuchRepository(f"There is no repository {where}, or it is private and {hint}.")
        if 500 <= status < 600 or status == 408:
            return HubUnreachable(f"{self._endpoint} has a fault of its own (HTTP {status}). {words}".strip())
        return HubMisbehaves(f"{self._endpoint} answers HTTP {status} for {repo_id}. {words}".strip())


def _snapshot(data: dict[str, Any]) -> Snapshot:
    entries = [entry for entry in data["Files"] or [] if entry["Type"] != "tree"]
    latest = data["LatestCommitter"]
    head = str(latest.get("Id") or latest["ShortId"]).lower()
    if not _COMMIT.fullmatch(head):
        raise ValueError("commit")
    in_full = {told for entry in entries if (told := str(entry.get("Revision", "")).lower()).startswith(head)}
    # A commit that only removed files is known by its first digits alone, which name it as well.
    commit = in_full.pop() if len(in_full) == 1 else head
    if not _COMMIT.fullmatch(commit):
        raise ValueError("commit")
    return Snapshot(commit, tuple(_file(entry) for entry in entries))


def _file(entry: dict[str, Any]) -> HubFile:
    path, size, sha256 = entry["Path"], entry["Size"], entry["Sha256"]
    if not isinstance(path, str) or not isinstance(size, int) or not 0 <= size < 2**50:
        raise ValueError("file")
    if not _SHA256.fullmatch(sha256):
        raise ValueError("hash")
    return HubFile(path, size, sha256)
