"""Repositories of the tests' hub: branches, commits and the files of every commit."""

import hashlib
from dataclasses import dataclass, field
from functools import lru_cache

LFS_BYTES = 1024
"""Files from this size on are LFS, as .gitattributes would say."""


@lru_cache(maxsize=64)
def blob_id(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@lru_cache(maxsize=64)
def sha256_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@dataclass
class Repository:
    """Its branches, by name, and the files of every commit."""

    branches: dict[str, str] = field(default_factory=dict)
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    messages: dict[str, str] = field(default_factory=dict)
    """Title, an empty line, and what follows it, by commit."""

    def commit(self, files: dict[str, bytes], branch: str = "main") -> str:
        listed = "".join(f"{path}{blob_id(content)}" for path, content in sorted(files.items()))
        sha = hashlib.sha1(f"{len(self.commits)}{listed}".encode()).hexdigest()
        self.commits[sha] = files
        self.branches[branch] = sha
        return sha

    def resolved(self, revision: str) -> str:
        """The commit of a branch, or one that is named by its first digits; empty: there is none."""
        named = self.branches.get(revision, revision)
        return next((commit for commit in self.commits if commit.startswith(named)), "")
