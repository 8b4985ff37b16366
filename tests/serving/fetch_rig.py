"""The program against a made-up control plane, and the directory of the machine."""

import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from serving.fetch import __main__ as fetch
from serving.fetch import control_plane
from tests.http_server import http_server
from tests.serving.files_server import TOKEN, Files

WINDOW = 64 * 1024
BIG = b"".join(hashlib.sha256(str(n).encode()).digest() for n in range(10_000))
"""Five windows."""
FILES = {"config.json": b"{}", "model.safetensors": BIG, "deep/er/copy.bin": BIG, "empty.txt": b""}


class Rig:
    def __init__(self, files: Files, url: str, cache: Path) -> None:
        self.files, self.url, self.cache = files, url, cache

    def arguments(self, files: Files | None = None, **options: object) -> list[str]:
        files = files or self.files
        given = {
            "url": self.url,
            "version_id": 7,
            "digest": files.manifest.digest,
            "cache": self.cache,
            "patience_seconds": 5,
            **options,
        }
        return [f"--{name.replace('_', '-')}={value}" for name, value in given.items()]

    def run(self, **options: object) -> int:
        return fetch.main(self.arguments(**options))

    def start(self, *, before: str = "", **options: object) -> "subprocess.Popen[str]":
        """Start a fetch in its own process; `before`: code that it runs first."""
        small = f"from serving.fetch import control_plane; control_plane.WINDOW_BYTES = {WINDOW}"
        run = "import sys\nfrom serving.fetch.__main__ import main\nsys.exit(main(sys.argv[1:]))"
        code = f"{before}\n{small}\n{run}"
        return subprocess.Popen(
            [sys.executable, "-c", code, *self.arguments(**options)],
            env={**os.environ, fetch.TOKEN: TOKEN},
            stderr=subprocess.PIPE,
            text=True,
        )

    @property
    def directory(self) -> Path:
        return self.cache / "versions" / self.files.manifest.digest

    def has_all(self) -> bool:
        found = {
            path.relative_to(self.directory).as_posix(): path.read_bytes()
            for path in self.directory.rglob("*")
            if path.is_file()
        }
        return found == self.files.files

    def left_over(self) -> set[str]:
        """Names of files that are of no whole version."""
        known = {"versions", "room", *(one.sha256 for one in self.files.manifest.files)}
        known |= {self.files.manifest.digest, *(Path(one).name for one in self.files.files)}
        return {path.name for path in self.cache.rglob("*") if path.is_file()} - known


@pytest.fixture
def rig(tmp_path: Path, monkeypatch) -> Iterator[Rig]:
    monkeypatch.setenv(fetch.TOKEN, TOKEN)
    monkeypatch.setattr(control_plane, "WINDOW_BYTES", WINDOW)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    before = os.umask(0o022)
    files = Files(FILES)
    with http_server(files.handler) as url:
        yield Rig(files, url, tmp_path / "machine")
    os.umask(before)
