"""A hub of our own that speaks the Hugging Face protocol, honestly or not; a real server on a free port."""

import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from urllib.parse import unquote, urlsplit

from tests.http_server import http_server
from tests.hubs.hub_repository import LFS_BYTES, Repository, blob_id, sha256_of
from tests.hubs.hub_writing import TakesUploads, Writing
from tests.hubs.modelscope_answers import ModelScopeAnswers


@dataclass
class Faults:
    """Faults of the hub. `status` answers are `(status, headers)` for the API, once each."""

    answers: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    file_answers: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    cut_after: list[int] = field(default_factory=list)
    """The next transfers break off after so many bytes."""
    bytes_per_second: int = 0
    ignores_ranges: bool = False
    damage: bytes = b""
    """Replaces the first bytes of large files."""
    turned: str = ""
    """The bytes of this file come in the wrong order."""
    extra_bytes: int = 0
    """Sent after the end of large files, without a length."""
    size_told: int = 0
    """Listed for large files."""
    commit_told: str = ""
    redirect_to: str = ""
    """Where large files lie, instead of the hub's own CDN path."""
    rename: dict[str, str] = field(default_factory=dict)
    """Names of files as listed."""
    revokes_after: int | None = None
    """Once it has sent so many bytes of files, the hub knows the token no longer."""


@dataclass
class HubServer:
    url: str
    repositories: dict[str, Repository] = field(default_factory=dict)
    faults: Faults = field(default_factory=Faults)
    writing: Writing = field(default_factory=Writing)
    tokens: dict[str, set[str]] = field(default_factory=dict)
    """Private repositories and who may read them; a known token is one of anybody's."""
    gated: set[str] = field(default_factory=set)
    requests: list[tuple[str, str, str]] = field(default_factory=list)
    """(path, Range, Authorization) of every request."""
    sent: Counter[str] = field(default_factory=Counter)
    """Bytes of file contents that were sent, by path in the repository."""

    def repository(self, name: str = "acme/tiny") -> Repository:
        return self.repositories.setdefault(name, Repository())

    def knows(self, token: str) -> bool:
        return any(token in known for known in self.tokens.values())


@contextmanager
def hub_server() -> Iterator[HubServer]:
    class Answers(_Answers):
        pass

    with http_server(Answers) as url:
        Answers.hub = HubServer(url)
        yield Answers.hub


class _Cut(Exception):
    pass


class _Answers(ModelScopeAnswers, TakesUploads, BaseHTTPRequestHandler):
    hub: HubServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        token = self.headers.get("Authorization", "")
        self.hub.requests.append((path, self.headers.get("Range", ""), token))
        try:
            if self.answered(path):
                return
            if found := re.fullmatch(r"/api/models/([^/]+/[^/]+)/revision/(.+)", path):
                self._revision(*found.groups())
            elif found := re.fullmatch(r"/api/models/([^/]+/[^/]+)/tree/([^/]+)", path):
                self._tree(*found.groups())
            elif found := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
                self._resolve(*found.groups())
            elif found := re.fullmatch(r"/api/models/([^/]+/[^/]+)/commits/(.+)", path):
                self._history(self.hub.repositories[found[1]], found[2])
            elif found := re.fullmatch(r"/cdn/([^/]+/[^/]+)/([^/]+)/(.+)", path):
                repo, commit, name = found.groups()
                self._send_file(name, self.hub.repositories[repo].commits[commit][name], {})
            else:
                self._answer(404)
        except (_Cut, ConnectionError):
            self.close_connection = True

    do_HEAD = do_GET

    def _answer(self, status: int, headers: dict[str, str] | None = None, body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _may_read(self, repo: str) -> bool:
        if (
            self.hub.faults.revokes_after is not None
            and self.hub.sent.total() >= self.hub.faults.revokes_after
        ):
            self.hub.tokens[repo] = set()
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if token and not self.hub.knows(token):
            self._answer(401, {"X-Error-Message": "Invalid credentials in Authorization header"})
        elif repo not in self.hub.repositories or token not in self.hub.tokens.get(repo, {token}):
            self._answer(401 if not token else 404, {"X-Error-Code": "RepoNotFound"})
        elif repo in self.hub.gated:
            self._answer(403, {"X-Error-Code": "GatedRepo"})
        else:
            return True
        return False

    def _revision(self, repo: str, revision: str) -> None:
        if self.hub.faults.answers:
            return self._answer(*self.hub.faults.answers.pop(0))
        if not self._may_read(repo):
            return None
        found = self.hub.repositories[repo]
        commit = found.branches.get(revision, revision)
        if commit not in found.commits:
            return self._answer(404, {"X-Error-Code": "RevisionNotFound"})
        siblings = [self._listed(path, content) for path, content in found.commits[commit].items()]
        body = json.dumps({"id": repo, "sha": commit, "siblings": siblings}).encode()
        return self._answer(200, {"Content-Type": "application/json", "X-Repo-Commit": commit}, body)

    def _tree(self, repo: str, commit: str) -> None:
        """List a repository as `snapshot_download` does."""
        if not self._may_read(repo):
            return
        found = []
        for path, content in self.hub.repositories[repo].commits[commit].items():
            listed = self._listed(path, content)
            entry = {"type": "file", "path": path, "size": listed["size"], "oid": listed["blobId"]}
            lfs = listed.get("lfs")
            found.append(entry | ({"lfs": lfs | {"oid": lfs["sha256"]}} if lfs else {}))
        self._answer(200, {"Content-Type": "application/json"}, json.dumps(found).encode())

    def _listed(self, path: str, content: bytes) -> dict:
        entry: dict = {"rfilename": self.hub.faults.rename.get(path, path), "size": len(content)}
        entry["blobId"] = blob_id(content)
        if len(content) >= LFS_BYTES:
            size = self.hub.faults.size_told or len(content)
            sha256 = sha256_of(content)
            entry |= {"size": size, "lfs": {"sha256": sha256, "size": size, "pointerSize": 130}}
        return entry

    def _resolve(self, repo: str, revision: str, path: str) -> None:
        if self.hub.faults.file_answers:
            return self._answer(*self.hub.faults.file_answers.pop(0))
        if not self._may_read(repo):
            return None
        found = self.hub.repositories[repo]
        commit = found.branches.get(revision, revision)
        if commit not in found.commits:
            return self._answer(404, {"X-Error-Code": "RevisionNotFound"})
        content = found.commits[commit].get(path)
        if content is None:
            return self._answer(404, {"X-Error-Code": "EntryNotFound"})
        headers = {"X-Repo-Commit": self.hub.faults.commit_told or commit}
        if len(content) < LFS_BYTES:
            return self._send_file(path, content, headers | {"ETag": f'"{blob_id(content)}"'})
        headers["X-Linked-Size"] = str(self.hub.faults.size_told or len(content))
        headers["X-Linked-Etag"] = f'"{sha256_of(content)}"'
        target = self.hub.faults.redirect_to or f"{self.hub.url}/cdn/{repo}/{commit}/{path}"
        return self._answer(302, headers | {"Location": target})

    def _send_file(self, path: str, content: bytes, headers: dict[str, str]) -> None:
        faults = self.hub.faults
        start, end = 0, len(content)
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if wanted and not faults.ignores_ranges:
            start, end = int(wanted[1]), int(wanted[2] or end - 1) + 1
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(content)}")
        else:
            self.send_response(200)
        for name, value in headers.items():
            self.send_header(name, value)
        is_large = len(content) >= LFS_BYTES
        if is_large and faults.extra_bytes:
            self.send_header("Connection", "close")
            self.close_connection = True
        else:
            self.send_header("Content-Length", str(end - start))
        self.end_headers()
        if self.command == "HEAD":
            return
        if path == faults.turned:
            content = content[::-1]
        if is_large:
            content = faults.damage + content[len(faults.damage) :] + b"x" * faults.extra_bytes
            end += faults.extra_bytes
        cut = faults.cut_after.pop(0) if is_large and faults.cut_after else None
        step = min(65_536, faults.bytes_per_second // 20 or 65_536)
        for at in range(start, end, step):
            chunk = content[at : min(at + step, end)]
            if cut is not None and at - start + len(chunk) > cut:
                self.wfile.write(chunk[: max(0, cut - (at - start))])
                self.wfile.flush()
                raise _Cut
            self.wfile.write(chunk)
            self.hub.sent[path] += len(chunk)
            if faults.bytes_per_second:
                time.sleep(step / faults.bytes_per_second)
