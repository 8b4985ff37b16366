"""A real registry (Debian's docker-registry) as a process, and images pushed into it by HTTP."""

import gzip
import hashlib
import io
import json
import shutil
import subprocess
import tarfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from tests.production.site import free_port

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
WHY_NOT = "there is no docker-registry here: bin/test takes it out of Debian's package of that name"


def is_here() -> bool:
    return shutil.which("docker-registry") is not None


@contextmanager
def registry(place: Path, **settings: Any) -> Iterator["RealRegistry"]:
    port = free_port()
    document = {
        "version": 0.1,
        "log": {"level": "error"},
        "storage": {"filesystem": {"rootdirectory": str(place / "data")}, "delete": {"enabled": True}},
        "http": {"addr": f"127.0.0.1:{port}"},
        **settings,
    }
    configuration = place / "registry.yml"
    configuration.write_text(json.dumps(document))  # JSON is YAML
    with (place / "registry.log").open("wb") as log:
        process = subprocess.Popen(["docker-registry", "serve", configuration], stdout=log, stderr=log)
    try:
        url = f"http://127.0.0.1:{port}"
        for _ in range(200):
            try:
                httpx2.get(f"{url}/v2/")
                break
            except httpx2.TransportError:
                time.sleep(0.05)
        yield RealRegistry(url)
    finally:
        process.kill()
        process.wait()


def digest_of(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def layer(text: str) -> bytes:
    """A small real layer: a compressed tar with one file."""
    with io.BytesIO() as out:
        with tarfile.open(fileobj=out, mode="w") as tar:
            entry = tarfile.TarInfo("etc/motd")
            entry.size = len(text.encode())
            tar.addfile(entry, io.BytesIO(text.encode()))
        return gzip.compress(out.getvalue(), mtime=0)


class RealRegistry:
    def __init__(self, url: str, auth: tuple[str, str] | None = None) -> None:
        self.url = url
        self.host = url.partition("://")[2]
        self._client = httpx2.Client(base_url=url, auth=auth)

    def push(
        self,
        path: str,
        tag: str,
        *,
        text: str = "hello",
        env: Mapping[str, str] | None = None,
        platform: str = "linux/amd64",
    ) -> str:
        """Push an image with one layer; its digest."""
        system, architecture = platform.split("/")
        packed = layer(text)
        config = json.dumps(
            {
                "os": system,
                "architecture": architecture,
                "config": {"Env": [f"{name}={value}" for name, value in (env or {}).items()]},
                "rootfs": {"type": "layers", "diff_ids": [digest_of(gzip.decompress(packed))]},
            }
        ).encode()
        for blob in (packed, config):
            self._blob(path, blob)
        kinds = ("application/vnd.oci.image.config.v1+json", "application/vnd.oci.image.layer.v1.tar+gzip")
        config_of, layer_of = (
            {"mediaType": kind, "digest": digest_of(blob), "size": len(blob)}
            for kind, blob in zip(kinds, (config, packed), strict=True)
        )
        manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config_of, "layers": [layer_of]}
        return self._manifest(path, tag, MANIFEST, manifest)

    def push_index(self, path: str, tag: str, platforms: Mapping[str, str]) -> str:
        """`platforms`: digests of images that were pushed, by platform."""
        children = []
        for platform, digest in platforms.items():
            system, architecture = platform.split("/")
            size = int(
                self._client.head(f"/v2/{path}/manifests/{digest}", headers={"Accept": MANIFEST}).headers[
                    "Content-Length"
                ]
            )
            children.append(
                {
                    "mediaType": MANIFEST,
                    "digest": digest,
                    "size": size,
                    "platform": {"os": system, "architecture": architecture},
                }
            )
        return self._manifest(
            path, tag, INDEX, {"schemaVersion": 2, "mediaType": INDEX, "manifests": children}
        )

    def _blob(self, path: str, body: bytes) -> None:
        begun = self._client.post(f"/v2/{path}/blobs/uploads/")
        assert begun.status_code == 202, begun.text
        where = httpx2.URL(begun.headers["Location"]).copy_merge_params({"digest": digest_of(body)})
        put = self._client.put(where, content=body, headers={"Content-Type": "application/octet-stream"})
        assert put.status_code == 201, put.text

    def _manifest(self, path: str, tag: str, kind: str, document: Mapping[str, Any]) -> str:
        body = json.dumps(document).encode()
        put = self._client.put(f"/v2/{path}/manifests/{tag}", content=body, headers={"Content-Type": kind})
        assert put.status_code == 201, put.text
        assert put.headers["Docker-Content-Digest"] == digest_of(body)
        return digest_of(body)
