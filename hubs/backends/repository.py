"""A Hugging Face repository to write to.

https://huggingface.co/docs/hub/api, huggingface_hub/_commit_api.py and lfs.py: small files go inside the
commit, large ones before it to addresses that the hub has signed (git-lfs batch API, in parts with
`chunk_size`).
"""

import base64
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx2
import orjson

from common.outbound.client import ANSWER_SECONDS, whole_body
from hubs.backends.base import (
    BranchMoved,
    HubError,
    HubMisbehaves,
    HubStorageFull,
    HubTokenRefused,
    HubUnreachable,
    MayNotWrite,
    NoSuchRepository,
    NoSuchRevision,
    RateLimited,
    Snapshot,
)
from hubs.backends.connection import HubConnection, origin_of
from hubs.backends.huggingface import HuggingFace
from hubs.backends.responses import wait_seconds
from model_store.file_manifest import ManifestFile
from model_store.paths import printable

AT_ONCE = 256
"""Files in one question, as huggingface_hub asks them."""
SAMPLE_BYTES = 512
MAX_ANSWER_BYTES = 16 * 1024 * 1024
MAX_PARTS = 10_000
"""Of a file, as S3 has it."""

_EXPIRED = (400, 401, 403, 404)
"""What storage answers to an address that is signed no longer."""
_COMMIT = re.compile(r"[0-9a-f]{40}")
_NO_ROOM = re.compile(r"quota|storage limit|storage space|space left|exceed", re.IGNORECASE)
_LFS = {"Accept": "application/vnd.git-lfs+json", "Content-Type": "application/vnd.git-lfs+json"}
_JSON = {"Content-Type": "application/json"}


class AddressExpired(HubError):
    """The signed address for a file is not valid any more; the hub gives a new one."""


@dataclass(frozen=True, slots=True)
class LargeFileUpload:
    """The addresses that a large file is sent to.

    Its parts of `part_bytes` go to `parts`, then their ETags to `address`; without parts the whole file goes
    to
    `address`.
    """

    address: str
    headers: Mapping[str, str]
    part_bytes: int = 0
    parts: tuple[str, ...] = ()
    verify_address: str = ""


class Repository:
    """A branch of a repository. Every method raises HubError. Safe from several threads."""

    def __init__(
        self, endpoint: str, repo_id: str, branch: str, *, token: str, trusted_hosts: Collection[str]
    ) -> None:
        self._endpoint = endpoint.rstrip("/")
        self._repo_id = repo_id
        self._branch = branch
        self._where = f"{repo_id} on {self._endpoint}"
        self._secret_headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._connection = HubConnection(trusted_hosts=trusted_hosts)
        self._reading = HuggingFace(endpoint, token=token, trusted_hosts=trusted_hosts)

    def at(self, revision: str = "") -> Snapshot:
        """Return the files of the branch, or of another revision."""
        return self._reading.snapshot(self._repo_id, revision or self._branch)

    def create(self, *, is_private: bool) -> None:
        """Make the repository; that somebody else has just made it is no error."""
        organization, _, name = self._repo_id.partition("/")
        # `visibility` is what the hub asks for today; what knows it not yet reads `private`.
        visibility = {"private": is_private, "visibility": "private" if is_private else "public"}
        wanted = {"type": "model", "name": name, "organization": organization, **visibility}
        self._asked(f"{self._endpoint}/api/repos/create", orjson.dumps(wanted), _JSON, also={409})

    def create_branch(self) -> None:
        self._asked(self._api("branch", self._branch), b"{}", _JSON, also={409})

    def commit_with(self, marker: str) -> str:
        """The newest commit of the branch with the line `marker` in its message; empty: none of the last."""
        with self._connection.get(
            self._api("commits", self._branch), secret_headers=self._secret_headers, headers={}
        ) as answers:
            if answers[-1].status_code in (404, 405, 501):
                # Not every hub tells its history.
                return ""
            body = whole_body(answers[-1], limit_bytes=MAX_ANSWER_BYTES, limit_seconds=ANSWER_SECONDS)
        self._check(answers[-1], body)
        told = self._understood(body)
        for entry in told if isinstance(told, list) else []:
            if marker in str(entry.get("message", "")).splitlines() and _COMMIT.fullmatch(
                str(entry.get("id"))
            ):
                return str(entry["id"])
        return ""

    def large_ones(self, files: Sequence[tuple[ManifestFile, bytes]]) -> set[str]:
        """Paths of those that go to the large file storage, by the hub's rules; each with its first bytes."""
        found: set[str] = set()
        for start in range(0, len(files), AT_ONCE):
            asked = [
                {
                    "path": file.path,
                    "size": file.size,
                    "sample": base64.b64encode(sample[:SAMPLE_BYTES]).decode(),
                }
                for file, sample in files[start : start + AT_ONCE]
            ]
            address = self._api("preupload", self._branch)
            told = self._understood(self._asked(address, orjson.dumps({"files": asked}), _JSON))
            modes = {one.get("path"): one.get("uploadMode") for one in _list(told, "files")}
            for one in asked:
                mode = modes.get(one["path"])
                if mode not in ("lfs", "regular"):
                    raise self._odd(f"does not say how it wants {printable(str(one['path']))}")
                if mode == "lfs":
                    found.add(str(one["path"]))
        return found

    def uploads(self, files: Sequence[ManifestFile]) -> dict[str, LargeFileUpload]:
        """Return uploads of the contents that the hub lacks, by sha256."""
        found: dict[str, LargeFileUpload] = {}
        for start in range(0, len(files), AT_ONCE):
            sizes = {file.sha256: file.size for file in files[start : start + AT_ONCE]}
            asked = {
                "operation": "upload",
                "transfers": ["basic", "multipart"],
                "hash_algo": "sha256",
                "ref": {"name": self._branch},
                "objects": [{"oid": sha256, "size": size} for sha256, size in sizes.items()],
            }
            address = f"{self._endpoint}/{quote(self._repo_id)}.git/info/lfs/objects/batch"
            told = self._understood(self._asked(address, orjson.dumps(asked), _LFS))
            answered = {one.get("oid"): one for one in _list(told, "objects")}
            for sha256, size in sizes.items():
                if sha256 not in answered:
                    raise self._odd(f"says nothing of the content {sha256[:12]}…")
                if (upload := self._upload(answered[sha256], size)) is not None:
                    found[sha256] = upload
        return found

    def put(self, address: str, headers: Mapping[str, str], content: Iterator[bytes], size: int) -> str:
        """Send bytes to a signed address; the ETag of what it holds now. Raises AddressExpired, HubError."""
        answer, _ = self._connection.send(
            "PUT",
            address,
            secret_headers={},
            headers={**headers, "Content-Length": str(size)},
            content=content,
            limit_bytes=MAX_ANSWER_BYTES,
        )
        status = answer.status_code
        if status in _EXPIRED:
            raise AddressExpired(f"The storage of {self._endpoint} refuses what it is sent (HTTP {status}).")
        if status in (402, 413, 507):
            raise HubStorageFull(f"The storage of {self._endpoint} has no room for it (HTTP {status}).")
        if status == 429:
            raise RateLimited(wait_seconds(answer))
        if status >= 500 or status == 408:
            raise HubUnreachable(f"The storage of {self._endpoint} has a fault of its own (HTTP {status}).")
        if status not in (200, 201, 204):
            raise HubMisbehaves(f"The storage of {self._endpoint} answers HTTP {status}.")
        return str(answer.headers.get("ETag", ""))

    def complete(self, upload: LargeFileUpload, file: ManifestFile, etags: Sequence[str]) -> None:
        """Tell the hub that all parts are there, and let it verify the content."""
        if upload.parts:
            parts = [{"partNumber": number, "etag": etag} for number, etag in enumerate(etags, 1)]
            self._asked(upload.address, orjson.dumps({"oid": file.sha256, "parts": parts}), _LFS, signed=True)
        if upload.verify_address:
            told = orjson.dumps({"oid": file.sha256, "size": file.size})
            self._asked(upload.verify_address, told, _LFS)

    def commit(self, *, parent: str, title: str, description: str, lines: Sequence[Mapping[str, Any]]) -> str:
        """Commit files on top of `parent` (empty: whatever is there). Raises BranchMoved, HubError."""
        head = {"summary": title, "description": description} | ({"parentCommit": parent} if parent else {})
        body = b"".join(orjson.dumps(line) + b"\n" for line in ({"key": "header", "value": head}, *lines))
        answer = self._asked(
            self._api("commit", self._branch), body, {"Content-Type": "application/x-ndjson"}, overtaken=True
        )
        told = self._understood(answer)
        commit = told.get("commitOid") if isinstance(told, dict) else ""
        if not _COMMIT.fullmatch(str(commit)):
            raise self._odd("does not say which commit it made")
        return str(commit)

    def _api(self, what: str, revision: str) -> str:
        return f"{self._endpoint}/api/models/{quote(self._repo_id)}/{what}/{quote(revision, safe='')}"

    def _upload(self, told: dict[str, Any], size: int) -> LargeFileUpload | None:
        if (error := told.get("error")) is not None:
            code, words = (
                (error.get("code"), error.get("message", "")) if isinstance(error, dict) else ("", error)
            )
            words = printable(str(words))[:300]
            if code in (402, 413, 507) or _NO_ROOM.search(words):
                raise HubStorageFull(f"{self._endpoint} has no room for it: {words}")
            raise MayNotWrite(f"{self._endpoint} does not take a file of {self._repo_id}: {words} ({code}).")
        actions = told.get("actions") or {}
        if "upload" not in actions:
            return None
        try:
            header = {str(key): str(value) for key, value in (actions["upload"].get("header") or {}).items()}
            address = str(actions["upload"]["href"])
            verify = str(actions["verify"]["href"]) if actions.get("verify") else ""
            part_bytes = int(header.pop("chunk_size", 0))
            numbered = sorted((int(number), url) for number, url in header.items() if number.isdecimal())
        except (KeyError, TypeError, ValueError, AttributeError):
            raise self._odd("does not say where a file is to be sent") from None
        for one in (address, *(url for _, url in numbered), *([verify] if verify else [])):
            self._check_address(one)
        if not part_bytes:
            return LargeFileUpload(address, header, verify_address=verify)
        if part_bytes < 1 or len(numbered) != -(-size // part_bytes) or len(numbered) > MAX_PARTS:
            raise self._odd("gives another number of parts than a file has")
        return LargeFileUpload(address, {}, part_bytes, tuple(url for _, url in numbered), verify)

    def _check_address(self, address: str) -> None:
        scheme = origin_of(address)[0]
        if scheme not in ("http", "https") or (self._endpoint.startswith("https:") and scheme != "https"):
            raise self._odd(f"has a file sent by {scheme or 'nothing'} instead of https")

    def _asked(
        self,
        address: str,
        body: bytes,
        headers: Mapping[str, str],
        *,
        also: Collection[int] = (),
        overtaken: bool = False,
        signed: bool = False,
    ) -> bytes:
        """The body of the answer. The token goes along to the hub itself, unless the address is `signed`."""
        is_ours = origin_of(address) == origin_of(self._endpoint)
        answer, told = self._connection.send(
            "POST",
            address,
            secret_headers=self._secret_headers if is_ours and not signed else {},
            headers=headers,
            content=body,
            limit_bytes=MAX_ANSWER_BYTES,
        )
        if signed and answer.status_code in _EXPIRED:
            raise AddressExpired(
                f"{self._endpoint} does not take the parts that were sent (HTTP {answer.status_code})."
            )
        if answer.status_code not in also:
            if overtaken and answer.status_code in (409, 412):
                raise BranchMoved(
                    f"Somebody else has committed to {self._branch} of {self._where} since this export "
                    "looked. Look at what came there, then try again."
                )
            self._check(answer, told)
        return told

    def _check(self, answer: httpx2.Response, body: bytes) -> None:
        status = answer.status_code
        if status in (200, 201, 204):
            return
        code, words = answer.headers.get("X-Error-Code", ""), _words(answer, body)
        if status == 429:
            raise RateLimited(wait_seconds(answer))
        if status in (402, 413, 507) or (status in (400, 403) and _NO_ROOM.search(words)):
            raise HubStorageFull(f"{self._endpoint} has no room for it: {words or status}")
        if code == "RevisionNotFound":
            raise NoSuchRevision(f"{self._where} has no branch {self._branch}.")
        if code == "RepoNotFound" or status == 404:
            raise NoSuchRepository(
                f"There is no repository {self._where}, or the token gives no access to it."
            )
        if status == 401:
            hint = (
                f"does not accept the token: {words.rstrip('.')}."
                if self._secret_headers
                else "asks for a token."
            )
            raise HubTokenRefused(f"{self._endpoint} {hint} Give the export one that may write.")
        if status == 403:
            raise MayNotWrite(
                f"The token may not write to {self._where}. {words} Give it that right there, or take "
                "another one."
            )
        if status >= 500 or status == 408:
            raise HubUnreachable(f"{self._endpoint} has a fault of its own (HTTP {status}). {words}".strip())
        if status in (301, 302, 303, 307, 308):
            raise HubMisbehaves(f"{self._where} has moved. Name the repository where it is now.")
        raise HubMisbehaves(f"{self._endpoint} answers HTTP {status} for {self._repo_id}. {words}".strip())

    def _understood(self, body: bytes) -> Any:
        try:
            return orjson.loads(body)
        except ValueError:
            raise self._odd("does not answer like a Hugging Face hub") from None

    def _odd(self, what: str) -> HubMisbehaves:
        return HubMisbehaves(
            f"{self._endpoint} {what}. Check the endpoint; if it is right, the hub is at fault."
        )


def _words(answer: httpx2.Response, body: bytes) -> str:
    told = answer.headers.get("X-Error-Message", "")
    if not told:
        try:
            told = orjson.loads(body).get("error", "")
        except (ValueError, AttributeError):
            told = ""
    return printable(str(told))[:300]


def _list(told: Any, key: str) -> list[dict[str, Any]]:
    found = told.get(key) if isinstance(told, dict) else None
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise HubMisbehaves(f"The hub's answer has no list of {key}.")
    return found
