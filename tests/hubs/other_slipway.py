"""Another Slipway that takes uploads, as its REST API says; a real server on a free port."""

import base64
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from urllib.parse import urlsplit

from model_store.file_manifest import ManifestFile, manifest_of
from tests.http_server import http_server

PART_BYTES = 100


@dataclass
class Upload:
    pk: int
    files: list[dict]
    version: str = ""


@dataclass
class OtherSlipway:
    url: str
    models: dict[str, list[dict]] = field(default_factory=lambda: {"tiny": []})
    """Versions by model."""
    uploads: list[Upload] = field(default_factory=list)
    parts: dict[str, dict[int, bytes]] = field(default_factory=dict)
    """Of contents, by sha256 and first byte."""
    calls: Counter[str] = field(default_factory=Counter)
    token: str = "slp_write"
    answers: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    """`(status, detail)` in place of the answer to a kind of request, once each."""
    looks_until_ready: int = 1
    becomes: str = "ready"
    digest: str = ""
    """In place of the right one."""

    def has(self, sha256: str, size: int) -> bool:
        return sum(map(len, self.parts.get(sha256, {}).values())) == size


@contextmanager
def other_slipway() -> Iterator[OtherSlipway]:
    class Answers(_Answers):
        pass

    with http_server(Answers) as url:
        Answers.other = OtherSlipway(url)
        yield Answers.other


class _Answers(BaseHTTPRequestHandler):
    other: OtherSlipway
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self._routed()

    do_POST = do_PUT = do_GET

    def _routed(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        path = urlsplit(self.path).path.removeprefix("/api/v1/")
        model = r"models/([^/]+)/"
        routes = {
            f"GET {model}": ("model", self._model),
            "POST models/": ("create", self._create),
            f"GET {model}versions/([^/]+)/": ("version", self._version),
            f"POST {model}uploads/": ("begin", self._begin),
            f"GET {model}uploads/([0-9]+)/": ("upload", self._upload),
            f"PUT {model}uploads/([0-9]+)/blobs/([0-9a-f]+)/": ("part", self._part),
            f"POST {model}uploads/([0-9]+)/complete/": ("complete", self._complete),
        }
        for pattern, (kind, handle) in routes.items():
            if found := re.fullmatch(pattern, f"{self.command} {path}"):
                self.other.calls[kind] += 1
                if self.headers.get("Authorization") != f"Bearer {self.other.token}":
                    return self._problem(401, "Invalid token.")
                if self.other.answers.get(kind):
                    return self._problem(*self.other.answers[kind].pop(0))
                if kind != "create" and found[1] not in self.other.models:
                    return self._problem(404, "There is no such model.")
                return handle(body, *found.groups())
        return self._problem(404, "There is no such thing.")

    def _said(self, document: object, status: int = 200) -> None:
        data = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _problem(self, status: int, detail: str) -> None:
        self._said({"status": status, "detail": detail}, status)

    def _model(self, _: bytes, model: str) -> None:
        self._said({"name": model})

    def _create(self, body: bytes) -> None:
        self.other.models[json.loads(body)["name"]] = []
        self._said({}, 201)

    def _version(self, _: bytes, model: str, reference: str) -> None:
        for version in self.other.models[model]:
            if reference in (version["name"], version["digest"]):
                version["looks"] += 1
                if version["state"] == "importing" and version["looks"] > self.other.looks_until_ready:
                    version["state"] = self.other.becomes
                return self._said(version)
        return self._problem(404, "The model has no such version.")

    def _begin(self, body: bytes, model: str) -> None:
        files = json.loads(body)["files"]
        same = next((one for one in self.other.uploads if one.files == files and not one.version), None)
        if same is None:
            same = Upload(len(self.other.uploads) + 1, files)
            self.other.uploads.append(same)
        self._shown(same, 201)

    def _upload(self, _: bytes, model: str, pk: str) -> None:
        self._shown(self.other.uploads[int(pk) - 1])

    def _shown(self, upload: Upload, status: int = 200) -> None:
        missing = []
        for sha256, size in {one["sha256"]: one["size"] for one in upload.files}.items():
            if size and not self.other.has(sha256, size):
                come = [[at, at + len(data) - 1] for at, data in self.other.parts.get(sha256, {}).items()]
                received = sum(last - first + 1 for first, last in come)
                told = {"sha256": sha256, "size": size, "received": come, "received_bytes": received}
                missing.append(told)
        self._said({"id": upload.pk, "part_bytes": PART_BYTES, "missing": missing}, status)

    def _part(self, body: bytes, model: str, pk: str, sha256: str) -> None:
        start = int(self.headers["Content-Range"].removeprefix("bytes ").partition("-")[0])
        digest = base64.b64encode(hashlib.sha256(body).digest()).decode()
        assert self.headers["Content-Digest"] == f"sha-256=:{digest}:"
        self.other.parts.setdefault(sha256, {})[start] = body
        self._said({})

    def _complete(self, body: bytes, model: str, pk: str) -> None:
        upload, versions = self.other.uploads[int(pk) - 1], self.other.models[model]
        if not upload.version:
            files = [ManifestFile(one["path"], one["size"], one["sha256"]) for one in upload.files]
            upload.version = f"v{len(versions) + 1}"
            digest = self.other.digest or manifest_of(files).digest
            made = {
                "name": upload.version,
                "state": "importing",
                "digest": digest,
                "looks": 0,
                "reason": "so",
            }
            versions.append(made | json.loads(body))
        self._said(next(one for one in versions if one["name"] == upload.version), 202)
