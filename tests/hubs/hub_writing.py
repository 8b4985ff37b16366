"""How the tests' hub takes what is sent to it: questions before, signed addresses, parts, one commit."""

import base64
import hashlib
import json
import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from tests.hubs.hub_repository import LFS_BYTES, Repository


@dataclass
class Writing:
    """Writes that were sent, and the hub's faults with them.

    Kinds of requests: create, branch, preupload, batch, put, complete, commit.
    """

    storage: dict[str, bytes] = field(default_factory=dict)
    """Large files, by sha256."""
    parts: dict[str, dict[int, bytes]] = field(default_factory=dict)
    """Of files that are not whole yet, by sha256."""
    readers: set[str] = field(default_factory=set)
    """Tokens that may not write."""
    part_bytes: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    put_bytes: int = 0
    seconds_per_part: float = 0
    tokens_at_storage: set[str] = field(default_factory=set)
    private: dict[str, bool] = field(default_factory=dict)
    """Repositories that were made."""
    answers: dict[str, list[tuple[int, dict[str, str], str]]] = field(default_factory=dict)
    """`(status, headers, error)` in place of the answer, once each."""
    cut_after: list[int] = field(default_factory=list)
    """The next files that are sent break off after so many bytes."""
    loses_answers_to_commits: int = 0
    before: dict[str, Callable[[], object]] = field(default_factory=dict)
    """Done before a request of that kind is looked at, once."""
    damages: bool = False
    """What is committed is not what was sent."""
    storage_address: str = ""
    """Where large files are to be sent, instead of the hub itself."""
    generation: int = 0
    """Signed addresses of earlier generations have expired."""


class TakesUploads:
    """A part of the hub's handler."""

    def do_POST(self) -> None:
        path = unquote(urlsplit(self.path).path)
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        routes = {
            r"/api/repos/create": ("create", self._create),
            r"/api/models/([^/]+/[^/]+)/branch/(.+)": ("branch", self._branch),
            r"/api/models/([^/]+/[^/]+)/preupload/(.+)": ("preupload", self._preupload),
            r"/([^/]+/[^/]+)\.git/info/lfs/objects/batch": ("batch", self._batch),
            r"/complete/([0-9a-f]+)": ("complete", self._complete),
            r"/api/models/([^/]+/[^/]+)/commit/(.+)": ("commit", self._commit),
        }
        for pattern, (kind, handle) in routes.items():
            if found := re.fullmatch(pattern, path):
                if not self._refused(kind):
                    handle(body, *found.groups())
                return
        self._answer(404)

    def do_PUT(self) -> None:
        writing = self.hub.writing
        length = int(self.headers["Content-Length"])
        writing.tokens_at_storage.add(self.headers.get("Authorization", ""))
        if writing.cut_after:
            self.rfile.read(min(length, writing.cut_after.pop(0)))
            self.close_connection = True
            self.connection.close()
            return None
        data = self.rfile.read(length)
        time.sleep(writing.seconds_per_part)
        if self._refused("put"):
            return None
        _, _, generation, sha256, number = urlsplit(self.path).path.split("/")
        if int(generation) != writing.generation:
            return self._answer(403, {}, b"<Error><Code>AccessDenied</Code></Error>")
        writing.put_bytes += length
        if int(number):
            writing.parts.setdefault(sha256, {})[int(number)] = data
        elif hashlib.sha256(data).hexdigest() == sha256:
            writing.storage[sha256] = data
        else:
            return self._answer(400)
        return self._answer(200, {"ETag": f'"{hashlib.md5(data).hexdigest()}"'})

    def _refused(self, kind: str) -> bool:
        writing = self.hub.writing
        writing.calls[kind] += 1
        if kind in writing.before:
            writing.before.pop(kind)()
        if writing.answers.get(kind):
            status, headers, error = writing.answers[kind].pop(0)
            self._answer(status, headers, json.dumps({"error": error}).encode())
            return True
        if kind in ("put", "complete"):
            return False
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if not token or (self.hub.tokens and not self.hub.knows(token)):
            self._answer(401, {"X-Error-Message": "Invalid credentials in Authorization header"})
        elif token in writing.readers:
            self._answer(403, {"X-Error-Message": "This token has the role read."})
        else:
            return False
        return True

    def _said(self, data: object) -> None:
        self._answer(200, {"Content-Type": "application/json"}, json.dumps(data).encode())

    def _create(self, body: bytes) -> None:
        wanted = json.loads(body)
        name = f"{wanted['organization']}/{wanted['name']}"
        if name in self.hub.repositories:
            return self._answer(409, {}, b'{"error": "You already created this model repo"}')
        self.hub.repository(name).commit({".gitattributes": b"*.safetensors filter=lfs\n"})
        self.hub.writing.private[name] = wanted["visibility"] == "private" and wanted["private"]
        return self._said({"url": f"{self.hub.url}/{name}"})

    def _branch(self, _: bytes, repo: str, branch: str) -> None:
        found = self.hub.repositories[repo]
        found.branches[branch] = found.branches["main"]
        self._said({})

    def _preupload(self, body: bytes, repo: str, branch: str) -> None:
        asked = json.loads(body)["files"]
        modes = [
            {
                "path": one["path"],
                "uploadMode": "lfs" if one["size"] >= LFS_BYTES else "regular",
                "shouldIgnore": False,
            }
            for one in asked
        ]
        self._said({"files": modes})

    def _batch(self, body: bytes, repo: str) -> None:
        objects = [self._instructed(one["oid"], one["size"]) for one in json.loads(body)["objects"]]
        self._said({"transfer": "multipart", "objects": objects})

    def _instructed(self, sha256: str, size: int) -> dict:
        writing, told = self.hub.writing, {"oid": sha256, "size": size}
        if sha256 in writing.storage:
            return told
        signed = f"{self.hub.url}/signed/{writing.generation}/{sha256}"
        if not writing.part_bytes:
            return told | {"actions": {"upload": {"href": writing.storage_address or f"{signed}/0"}}}
        parts = -(-size // writing.part_bytes)
        header = {str(number): f"{signed}/{number}" for number in range(1, parts + 1)}
        header["chunk_size"] = str(writing.part_bytes)
        href = f"{self.hub.url}/complete/{sha256}"
        return told | {"actions": {"upload": {"href": href, "header": header}}}

    def _complete(self, body: bytes, sha256: str) -> None:
        told = json.loads(body)["parts"]
        parts = self.hub.writing.parts.get(sha256, {})
        etags = {number: f'"{hashlib.md5(data).hexdigest()}"' for number, data in parts.items()}
        whole = b"".join(data for _, data in sorted(parts.items()))
        same = etags == {one["partNumber"]: one["etag"] for one in told}
        if not same or hashlib.sha256(whole).hexdigest() != sha256:
            return self._answer(400, {}, b'{"error": "The parts do not fit."}')
        self.hub.writing.storage[sha256] = whole
        return self._said({})

    def _commit(self, body: bytes, repo: str, branch: str) -> None:
        writing, found = self.hub.writing, self.hub.repositories[repo]
        head, *lines = [json.loads(line) for line in body.splitlines()]
        parent = found.branches.get(branch, "")
        if head["value"].get("parentCommit", parent) != parent:
            return self._answer(412, {}, b'{"error": "A commit has happened since. Please refresh."}')
        files = dict(found.commits.get(parent, {}))
        for line in lines:
            value = line["value"]
            if line["key"] == "lfsFile":
                files[value["path"]] = writing.storage[value["oid"]]
            else:
                files[value["path"]] = base64.b64decode(value["content"])
        if writing.damages:
            files = {path: content[::-1] for path, content in files.items()}
        sha = found.commit(files, branch)
        found.messages[sha] = f"{head['value']['summary']}\n\n{head['value']['description']}"
        if writing.loses_answers_to_commits:
            writing.loses_answers_to_commits -= 1
            self.close_connection = True
            self.connection.close()
            return None
        return self._said(
            {"success": True, "commitOid": sha, "commitUrl": f"{self.hub.url}/{repo}/commit/{sha}"}
        )

    def _history(self, found: Repository, branch: str) -> None:
        listed = []
        for sha in reversed(found.commits):
            title, _, message = found.messages.get(sha, "Upload files").partition("\n\n")
            listed.append(
                {
                    "id": sha,
                    "title": title,
                    "message": message,
                    "authors": [],
                    "date": "2026-11-20T08:30:00.000Z",
                }
            )
        self._said(listed)
