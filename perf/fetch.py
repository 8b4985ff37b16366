"""What it costs a machine to fetch a version: `python -m perf.fetch [--megabytes 2000]` prints a table.

A server on this machine hands out two files (`sendfile`, so that its own CPU is small) to `python -m
serving.fetch` and to `curl` and `sha256sum`, one after the other in the same run. Compared are own CPU (user
and system, the hash included), bytes asked for, and the most memory held. Required: at most 1.5 times the
CPU, no byte twice, and at most 256 MB of memory, whatever the size (12 windows of 8 MiB).
"""

import argparse
import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from model_store.file_manifest import FileManifest, ManifestFile, manifest_of
from perf.required import RequiredFigure, at_most, report

MOST_CPU = 1.5
MOST_KB = 256_000


class RangeServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, files: dict[str, Path], manifest: FileManifest) -> None:
        super().__init__(("127.0.0.1", 0), RangeRequestHandler)
        self.files, self.manifest, self.sent_bytes = files, manifest, 0
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class RangeRequestHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: RangeServer

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        name = self.path.strip("/").split("/")[-1]
        path = self.server.files.get(name)
        if path is None:
            files = [{"path": f.path, "size": f.size, "sha256": f.sha256} for f in self.server.manifest.files]
            body = json.dumps({"version": "perf:v1", "files": files}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            return
        size = path.stat().st_size
        span = self.headers.get("Range")
        first, last = map(int, span.removeprefix("bytes=").split("-")) if span else (0, size - 1)
        self.send_response(206 if span else 200)
        if span:
            self.send_header("Content-Range", f"bytes {first}-{last}/{size}")
        self.send_header("Content-Length", str(last + 1 - first))
        self.end_headers()
        self.wfile.flush()
        self.server.sent_bytes += last + 1 - first
        with path.open("rb") as file:
            while first <= last:
                first += os.sendfile(self.connection.fileno(), file.fileno(), first, last + 1 - first)


def served(folder: Path, megabytes: int) -> RangeServer:
    files, listed = {}, []
    for number in range(2):
        path = folder / f"model-{number}.safetensors"
        digest = hashlib.sha256()
        with path.open("wb") as file:
            for _ in range(megabytes // 2):
                block = os.urandom(1_000_000)
                digest.update(block)
                file.write(block)
        files[digest.hexdigest()] = path
        listed.append(ManifestFile(path.name, path.stat().st_size, digest.hexdigest()))
    return RangeServer(files, manifest_of(listed))


def measured(*commands: list[str]) -> tuple[float, float, int]:
    """Own CPU and wall in seconds, and the most memory in kB, of these one after the other."""
    cpu, kilobytes, began = 0.0, 0, time.monotonic()
    for command in commands:
        with subprocess.Popen(
            command,
            env={**os.environ, "SLIPWAY_STORE_TOKEN": "slp_perf"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        ) as process:
            assert process.stderr is not None
            said = process.stderr.read()
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"{' '.join(command)}: {said.decode()}")
        cpu, kilobytes = cpu + used.ru_utime + used.ru_stime, max(kilobytes, used.ru_maxrss)
    return cpu, time.monotonic() - began, kilobytes


def ours(server: RangeServer, cache: Path) -> tuple[float, float, int]:
    return measured(
        [
            *(sys.executable, "-m", "serving.fetch", f"--url={server.url}", "--version-id=1"),
            *(f"--digest={server.manifest.digest}", f"--cache={cache}"),
        ]
    )


def theirs(server: RangeServer, folder: Path) -> tuple[float, float, int]:
    commands = []
    for name in server.files:
        commands.append(["curl", "-sSf", "-o", str(folder / name), f"{server.url}/{name}"])
        commands.append(["sha256sum", str(folder / name)])
    return measured(*commands)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="on the disk to measure; default: the temporary one")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        (folder / "source").mkdir()
        server = served(folder / "source", options.megabytes)
        fetched, curled = [], []
        for number in range(options.rounds):
            server.sent_bytes = 0
            fetched.append(ours(server, folder / f"cache-{number}"))
            asked = server.sent_bytes
            (folder / f"curl-{number}").mkdir()
            curled.append(theirs(server, folder / f"curl-{number}"))
            again = ours(server, folder / f"cache-{number}")
        size = server.manifest.size_bytes
        held = max(one[2] for one in fetched)
        cpu, curl_cpu = min(one[0] for one in fetched), min(one[0] for one in curled)
        rows = [
            RequiredFigure("bytes of the version", f"{size:,} in 2 files"),
            RequiredFigure(
                "curl and sha256sum", f"{curl_cpu:.2f} s CPU, {min(one[1] for one in curled):.2f} s"
            ),
            RequiredFigure("serving.fetch", f"{cpu:.2f} s CPU, {min(one[1] for one in fetched):.2f} s"),
            at_most("  its CPU by theirs", cpu / curl_cpu, MOST_CPU),
            at_most("  bytes asked for by bytes of the version", asked / size, 1.0),
            RequiredFigure("  most memory", f"{held:,} kB", f"at most {MOST_KB:,} kB", held <= MOST_KB),
            RequiredFigure("again, with all of it there", f"{again[0]:.2f} s CPU, {again[1]:.2f} s"),
        ]
    return report(rows)


if __name__ == "__main__":
    sys.exit(main())
