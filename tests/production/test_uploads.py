"""Two hosts whose store is a bucket: parts of one upload come to both, and one of them is lost."""

import hashlib
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.model_store.s3_server import KEYS, S3Server
from tests.models_registry import builders as b
from tests.production.site import Host, Site, eventually

# Cheaper ones show it in one process: tests/models_registry/test_uploads_to_a_bucket.py.
pytestmark = [pytest.mark.process, pytest.mark.any_database, pytest.mark.slow]
BUCKET = "uploads-of-two-hosts"
PART = 8 * 1024 * 1024


@pytest.fixture
def site(s3: S3Server, tmp_path: Path) -> Iterator[Site]:
    s3.client.create_bucket(Bucket=BUCKET)
    made = Site(
        tmp_path,
        SLIPWAY_STORE=f"s3://{BUCKET}/slipway",
        SLIPWAY_STORE_ENDPOINT=s3.url,
        SLIPWAY_STORE_PATH_STYLE="true",
        AWS_ACCESS_KEY_ID=KEYS["aws_access_key_id"],
        AWS_SECRET_ACCESS_KEY=KEYS["aws_secret_access_key"],
    )
    yield made
    made.close()


class Sender:
    """Somebody whose proxy takes each request to another web."""

    def __init__(self, prague: Host, brno: Host) -> None:
        self.hosts = [prague, brno]
        self.token = prague.token
        self._turn = 0

    def ask(self, method: str, path: str, *, status: int, **options: Any) -> Any:
        self._turn += 1
        host = self.hosts[self._turn % len(self.hosts)]
        headers = {"Authorization": f"Bearer {self.token}", **options.pop("headers", {})}
        url = f"{host.url}/api/v1/{path}"
        answer = httpx2.request(method, url, headers=headers, timeout=60, **options)
        assert answer.status_code == status, answer.text
        return answer.json()

    def put(self, path: str, content: bytes, start: int) -> Any:
        part = content[start : start + PART]
        headers = {
            "Content-Type": "application/octet-stream",
            "Content-Range": f"bytes {start}-{start + len(part) - 1}/{len(content)}",
        }
        return self.ask("PUT", path, status=200, content=part, headers=headers)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_parts_come_to_either_web_and_the_death_of_one_loses_none(site: Site, s3: S3Server) -> None:
    prague, brno = (site.host(name, SLIPWAY_HOST=name) for name in ("prague", "brno"))
    for host in (prague, brno):
        host.prepare()
    web, _ = prague.web(), brno.web()
    sender = Sender(prague, brno)
    sender.ask("POST", "models/", status=201, json={"name": "talk", "task": "text-generation"})
    files = b.model_files() | {"big.safetensors": b.weights(3 * PART)}
    listed = [{"path": path, "size": len(data), "sha256": sha256(data)} for path, data in files.items()]
    upload = sender.ask("POST", "models/talk/uploads/", status=201, json={"files": listed})
    path = f"models/talk/uploads/{upload['id']}/"
    assert upload["part_bytes"] == PART
    big, *others = sorted(files.values(), key=len, reverse=True)
    starts = range(0, len(big), PART)
    for start in starts[:2]:
        came = sender.put(f"{path}blobs/{sha256(big)}/", big, start)
    assert came["received"] == [[0, 2 * PART - 1]]

    web.stop(signal.SIGKILL)
    sender.hosts = [brno]
    for start in starts[2:]:
        came = sender.put(f"{path}blobs/{sha256(big)}/", big, start)
    assert came["is_whole"]
    for content in others:
        sender.put(f"{path}blobs/{sha256(content)}/", content, 0)
    assert sender.ask("GET", path, status=200)["missing"] == []
    made = sender.ask("POST", f"{path}complete/", status=202, json={})
    # The host that never saw a part makes the version.
    prague.start("worker", "--processes", "1")
    version = f"models/talk/versions/{made['name']}/"
    eventually(lambda: sender.ask("GET", version, status=200)["state"] != "importing")
    assert sender.ask("GET", version, status=200)["state"] == "ready"
    eventually(lambda: not [key for key in s3.keys(BUCKET) if "/uploads/" in key])
    assert [path for host in (prague, brno) for path in (host.home / "models").glob("uploads/*")] == []
