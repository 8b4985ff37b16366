"""Keeps the LoRA adapters that a file names on a disk: `python -m serving.fetch.adapters --url URL --wanted
FILE --into DIRECTORY`.

The file is `{"NAME": {"version": "MODEL:VERSION", "id": 7, "digest": "..."}}` and may change at any time.
What has come whole stands in `adapters.json` of the directory, which a worker follows (`serving.adapters`).
What could not be fetched is tried again, while the others are there.
"""

import argparse
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from serving.protocol import ADAPTERS_FILE

log = logging.getLogger(__name__)

LOOK_EVERY_SECONDS = 1.0
TRIED_AGAIN_AFTER_SECONDS = 10.0


class AdapterFetcher:
    """Brings adapters into a directory, each version by a run of `serving.fetch` into a cache of its own."""

    def __init__(self, url: str, *, wanted: Path, into: Path) -> None:
        self._url = url
        self._wanted = wanted
        self._into = into
        self._here: dict[str, dict[str, str]] | None = None
        self._tried: set[str] = set()
        self._try_at = 0.0

    def look(self) -> None:
        """Fetch what is missing, and write the file where it is another one now."""
        try:
            wanted: Mapping[str, Any] = json.loads(self._wanted.read_bytes())
        except FileNotFoundError:
            wanted = {}
        missing = {
            one["digest"]: one["id"] for one in wanted.values() if not self._directory(one["digest"]).is_dir()
        }
        if missing.keys() - self._tried or (missing and time.monotonic() >= self._try_at):
            for digest, version in missing.items():
                self._fetch(version, digest)
            self._tried = set(missing)
            self._try_at = time.monotonic() + TRIED_AGAIN_AFTER_SECONDS
        before, here = self._here or {}, {}
        for name, one in wanted.items():
            if (directory := self._directory(one["digest"])).is_dir():
                here[name] = {"version": one["version"], "directory": str(directory)}
            elif name in before:
                here[name] = before[name]  # until the next version of it has come
        if here != self._here:
            self._write(here)
            # The worker may still be reading those of before.
            kept = {
                Path(one["directory"]).name for one in (*here.values(), *before.values())
            } | missing.keys()
            for path in self._into.iterdir():
                if path.is_dir() and path.name not in kept:
                    shutil.rmtree(path)
            self._here = here

    def _write(self, here: Mapping[str, Any]) -> None:
        part = self._into / f".{ADAPTERS_FILE}"
        part.write_text(json.dumps(here))
        part.replace(self._into / ADAPTERS_FILE)
        log.info("adapters here: %s", ", ".join(sorted(here)) or "none")

    def _directory(self, digest: str) -> Path:
        return self._into / digest / "versions" / digest

    def _fetch(self, version: int, digest: str) -> None:
        arguments = [f"--url={self._url}", f"--version-id={version}", f"--digest={digest}"]
        subprocess.run(
            [sys.executable, "-m", "serving.fetch", *arguments, f"--cache={self._into / digest}"], check=False
        )  # it says itself why it failed


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser("serving.fetch.adapters", description=__doc__)
    parser.add_argument("--url", required=True, help="address of Slipway")
    parser.add_argument("--wanted", required=True, type=Path, help="the file that names the adapters")
    parser.add_argument("--into", required=True, type=Path, help="directory that the worker sees as well")
    given = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(message)s")
    # As PID 1 of a container it would hear nothing.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    fetcher = AdapterFetcher(given.url, wanted=given.wanted, into=given.into)
    while True:
        fetcher.look()
        time.sleep(LOOK_EVERY_SECONDS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
