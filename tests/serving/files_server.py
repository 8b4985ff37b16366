"""A made-up control plane that hands out model files, with the faults of real ones."""

import hashlib
import json
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any

from model_store.file_manifest import FileManifest, ManifestFile, manifest_of

TOKEN = "slp_test"
Answer = Callable[["Request"], bool]
"""Whether the request is answered by this."""


class Files:
    """A server of these files; `faults` are asked in turn, each once."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files = dict(files)
        self.by_sha256 = {hashlib.sha256(data).hexdigest(): data for data in files.values()}
        self.requests: list[tuple[str, str]] = []
        self.faults: list[Answer] = []
        self.bytes_per_second = 0.0
        self.lock = threading.Lock()
        self.further: dict[str, Files] = {}
        """Of other versions, by their id."""
        files_ = self

        class Handler(Request):
            files = files_

        self.handler: type[BaseHTTPRequestHandler] = Handler

    @property
    def manifest(self) -> FileManifest:
        return manifest_of(
            ManifestFile(path, len(data), hashlib.sha256(data).hexdigest())
            for path, data in self.files.items()
        )

    def next_fault(self, request: "Request") -> bool:
        with self.lock:
            fault = self.faults.pop(0) if self.faults else None
        return fault is not None and fault(request)

    def sent_bytes(self) -> int:
        """The bytes that ranges asked for."""
        spans = [span.removeprefix("bytes=").split("-") for _, span in self.requests if span]
        return sum(int(last) - int(first) + 1 for first, last in spans)


class Request(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    files: Files

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self.files.requests.append((self.path, self.headers.get("Range", "")))
        if self.files.next_fault(self):
            return
        parts = self.path.strip("/").split("/")
        if self.headers.get("Authorization") != f"Bearer {TOKEN}" and parts[0] == "api":
            self.problem(401, "This token is expired. Create a new one.")
            return
        versions = {"7": self.files, **self.files.further}
        files = versions.get("".join(parts[3:4]), self.files)
        if parts[:3] == ["api", "v1", "model-files"] and len(parts) == 4 and parts[3] in versions:
            listed = [{"path": f.path, "size": f.size, "sha256": f.sha256} for f in files.manifest.files]
            self.answer(200, json.dumps({"version": "story:v1", "files": listed}).encode())
        elif (data := files.by_sha256.get(parts[-1])) is not None:
            self.part_of(data)
        else:
            self.problem(404, "No deployment on the cluster gpu needs a version with the id 8.")

    def part_of(self, data: bytes, *, cut: int | None = None, spoil: bool = False) -> None:
        first, last = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
        body = data[first : last + 1]
        if spoil:
            body = bytes([body[0] ^ 1]) + body[1:]
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {first}-{last}/{len(data)}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.files.bytes_per_second:
            time.sleep(len(body) / self.files.bytes_per_second)
        try:
            self.wfile.write(body[:cut])
        except OSError:
            self.close_connection = True
        if cut is not None:
            self.close_connection = True

    def data(self) -> bytes:
        return self.files.by_sha256[self.path.strip("/").split("/")[-1]]

    def answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def problem(self, status: int, detail: str, **headers: str) -> None:
        self.answer(status, json.dumps({"detail": detail, "status": status}).encode(), **headers)


def passes(_request: Request) -> bool:
    return False


def drops(request: Request) -> bool:
    """No answer at all."""
    request.close_connection = True
    return True


def cuts(at: int) -> Answer:
    def cut(request: Request) -> bool:
        request.part_of(request.data(), cut=at)
        return True

    return cut


def spoils(request: Request) -> bool:
    request.part_of(request.data(), spoil=True)
    return True


def says(status: int, detail: str = "", **headers: str) -> Answer:
    def say(request: Request) -> bool:
        request.problem(status, detail, **headers)
        return True

    return say


def sends_all(request: Request) -> bool:
    request.answer(200, request.data())
    return True
