"""What the tests' hub says to who speaks ModelScope's protocol, its traps included."""

import hashlib
import json
import re
from urllib.parse import parse_qs, urlsplit

from tests.hubs.hub_repository import LFS_BYTES


class ModelScopeAnswers:
    """A part of the hub's handler: `answered` says whether the request was one of this protocol."""

    def answered(self, path: str) -> bool:
        found = re.fullmatch(r"/api/v1/models/([^/]+/[^/]+)/(repo/files|repo)", path)
        if found is None:
            return False
        asked = {name: value[0] for name, value in parse_qs(urlsplit(self.path).query).items()}
        repo, what = found.groups()
        faults = self.hub.faults.answers if what == "repo/files" else self.hub.faults.file_answers
        if faults:
            self._answer(*faults.pop(0))
        elif self._may_read_wrapped(repo):
            (self._listing if what == "repo/files" else self._content)(repo, asked)
        return True

    def _wrapped(self, data: object, *, status: int = 200, code: int = 200, message: str = "success") -> None:
        body = {"Code": code, "Success": code == 200, "Message": message, "Data": data, "RequestId": "1"}
        self._answer(status, {"Content-Type": "application/json"}, json.dumps(body).encode())

    def _may_read_wrapped(self, repo: str) -> bool:
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        session = f"m_session_id={token}"
        if token and not (self.hub.knows(token) and session in self.headers.get("Cookie", "")):
            self._wrapped(None, status=400, code=10010103009, message="AccessToken is invalid or expired")
        elif repo not in self.hub.repositories or token not in self.hub.tokens.get(repo, {token}):
            self._wrapped(None, status=404, code=10010205001, message="record not found")
        elif repo in self.hub.gated:
            self._wrapped(None, status=403, code=403, message="please apply for access")
        else:
            return True
        return False

    def _listing(self, repo: str, asked: dict[str, str]) -> None:
        found = self.hub.repositories[repo]
        commit = found.resolved(asked["Revision"])
        if commit not in found.commits:
            return self._wrapped({"Files": None, "IsVisual": 0, "LatestCommitter": None})
        entries = [self._entry(found, commit, path) for path in found.commits[commit]]
        tree = {"Path": "empty", "Name": "empty", "Type": "tree", "Size": 0, "Sha256": "", "Revision": ""}
        data = {"Files": [tree, *entries], "LatestCommitter": {"Id": "", "ShortId": commit[:8]}}
        return self._wrapped(data)

    def _entry(self, found, commit: str, path: str) -> dict:
        content = found.commits[commit][path]
        commits = list(found.commits)[: list(found.commits).index(commit) + 1]
        # The commit that brought it: the newest before which it was another.
        brought = commit
        for before in reversed(commits):
            if found.commits[before].get(path) != content:
                break
            brought = before
        return {
            "Path": self.hub.faults.rename.get(path, path),
            "Name": path.rpartition("/")[2],
            "Type": "blob",
            "Size": (self.hub.faults.size_told if len(content) >= LFS_BYTES else 0) or len(content),
            "Sha256": hashlib.sha256(content).hexdigest(),
            "IsLFS": len(content) >= LFS_BYTES,
            "Revision": brought,
        }

    def _content(self, repo: str, asked: dict[str, str]) -> None:
        found, path = self.hub.repositories[repo], asked["FilePath"]
        commit = found.resolved(asked["Revision"])
        content = found.commits.get(commit, {}).get(path)
        if content is None:
            return self._wrapped(None, status=404, code=10990101007, message="file not found")
        if len(content) < LFS_BYTES:
            return self._send_file(path, content, {})
        target = self.hub.faults.redirect_to or f"{self.hub.url}/cdn/{repo}/{commit}/{path}"
        return self._answer(302, {"Location": target})
