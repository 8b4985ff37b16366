"""Two hosts of one installation: what they share goes through PostgreSQL, Redis and the store."""

import hashlib
import json
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest
from websockets.sync.client import connect

from tests.e2e.conftest import write_version
from tests.ports import PortBlock
from tests.production.site import Host, Role, Site, eventually

pytestmark = [pytest.mark.process, pytest.mark.any_database]

LOST_AFTER_SECONDS = 5.0
COMPLETION = {"model": "talk", "prompt": "hello", "max_tokens": 4}


class Pair:
    """`prague` runs the gateway and the models, `brno` a web and a worker."""

    def __init__(self, site: Site) -> None:
        ports = PortBlock()
        names = {"SLIPWAY_WORKER_PORTS": "{}-{}".format(*ports.workers)}
        self.ports = ports
        self.prague = site.host("a", SLIPWAY_HOST="prague", **names)
        self.brno = site.host("b", SLIPWAY_HOST="brno")
        webs = f"{self.prague.url},{self.brno.url}"
        self.prague.environment["SLIPWAY_REPORT_URL"] = webs
        self.prague.prepare()
        self.brno.prepare()
        self.web = self.prague.web()
        self.worker = self.start_worker()
        self.prague.start("gateway")
        self.node = self.prague.start("node").says("The node is ready.")
        self.brno.web()
        self.other = self.brno.start("worker", "--processes", "1")

    def start_worker(self) -> Role:
        return self.prague.start("worker", "--processes", "1")

    def ask(self, host: Host, method: str, path: str, **options: Any) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {self.prague.token}", **options.pop("headers", {})}
        url = f"{host.url}/api/v1/{path}"
        return httpx2.request(method, url, headers=headers, timeout=60, **options)

    def get(self, host: Host, path: str) -> Any:
        answer = self.ask(host, "GET", path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, host: Host, path: str, document: Any) -> Any:
        answer = self.ask(host, "POST", path, json=document)
        assert answer.status_code in (200, 201, 202), answer.text
        return answer.json()

    def parts(self, host: Host) -> Any:
        headers = {"Authorization": f"Bearer {self.prague.token}"}
        return httpx2.get(f"{host.url}/readyz", headers=headers, timeout=60).json()["parts"]

    def promoted(self, release: int) -> bool:
        seen = self.get(self.brno, f"releases/{release}/")
        assert seen["state"] not in ("failed", "stuck", "rolled_back"), seen
        return bool(seen["state"] == "promoted")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    home = tmp_path_factory.mktemp("hosts")
    made = Site(home, SLIPWAY_STORE=str(home / "models"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def pair(site: Site) -> Iterator[Pair]:
    made = Pair(site)
    yield made
    made.node.stop()  # killed it would leave the model workers running


@pytest.fixture(scope="module")
def version(pair: Pair, site: Site) -> Any:
    pair.post(pair.brno, "models/", {"name": "talk", "task": "text-generation"})
    return pushed(pair, write_version(site.home / "first", seed=1))


def pushed(pair: Pair, directory: Path) -> Any:
    """Uploaded in parts, each to the other web, and imported by whichever worker came first."""
    files = sorted(directory.iterdir())
    announced = [
        {"path": file.name, "size": len(file.read_bytes()), "sha256": _sha256(file)} for file in files
    ]
    upload = pair.post(pair.brno, "models/talk/uploads/", {"files": announced})
    webs = (pair.prague, pair.brno)
    for number, file in enumerate(files):
        content = file.read_bytes()
        size = upload["part_bytes"]
        parts = [content[start : start + size] for start in range(0, len(content), size)]
        for index, part in enumerate(parts):
            first = index * size
            answer = pair.ask(
                webs[(number + index) % 2],
                "PUT",
                f"models/talk/uploads/{upload['id']}/blobs/{_sha256(file)}/",
                content=part,
                headers={
                    "Content-Type": "application/octet-stream",
                    "Content-Range": f"bytes {first}-{first + len(part) - 1}/{len(content)}",
                },
            )
            assert answer.status_code == 200, answer.text
    made = pair.post(pair.brno, f"models/talk/uploads/{upload['id']}/complete/", {})
    path = f"models/talk/versions/{made['name']}/"
    eventually(lambda: pair.get(pair.brno, path)["state"] != "importing")
    found = pair.get(pair.brno, path)
    assert found["state"] == "ready", found
    return found


@pytest.fixture(scope="module")
def service(pair: Pair, version: Any) -> Any:
    wish = {"name": "talk", "model": "talk", "version": version["name"], "engine": "echo", "replicas": 1}
    made = pair.post(pair.brno, "services/", {**wish, "plan": "direct"})
    eventually(lambda: pair.promoted(made["release_in_motion"]))
    return pair.get(pair.brno, "services/talk/")


def test_what_is_uploaded_through_two_webs_is_served_by_one_host(pair: Pair, service: Any):
    assert service["url"] == f"http://127.0.0.1:{pair.prague.gateway_port}/talk/"
    answer = httpx2.post(f"{service['url']}v1/completions", json=COMPLETION, timeout=60)
    assert (answer.status_code, answer.headers["x-slipway-version"]) == (200, "talk:v1")
    assert {path.name for path in (pair.brno.home / "run").glob("*")} <= {"supervisor.d"}
    assert "cannot be refreshed" not in pair.other.log
    assert "cannot be written" not in pair.other.log


def test_the_web_of_one_host_shows_what_lies_on_the_other(pair: Pair, service: Any):
    worker = pair.get(pair.brno, f"deployments/{_deployment(pair)}/")["workers"][0]["name"]
    there, here = (pair.get(host, f"workers/{worker}/log/")["log"] for host in (pair.brno, pair.prague))
    assert there.splitlines()[0] == here.splitlines()[0]
    eventually(lambda: pair.parts(pair.brno)["hosts"]["detail"] == "brno, prague")
    parts = pair.parts(pair.brno)
    assert parts["gateway"]["ok"], parts
    assert parts["store"]["ok"], parts


def test_the_web_of_one_host_shows_the_live_traffic_of_the_other_s_gateway(
    site: Site, pair: Pair, service: Any
):
    """Over its socket, as a page does."""

    with psycopg.connect(site.postgres.url) as connection:
        ((number,),) = connection.execute("SELECT id FROM releases_service").fetchall()
    headers = {"Authorization": f"Bearer {pair.prague.token}"}
    address = f"{pair.brno.url.replace('http', 'ws')}/ws/live/"
    seen: dict[str, Any] = {}
    with connect(address, additional_headers=headers) as socket:
        socket.send(json.dumps({"type": "subscribe", "topics": [f"service:{number}"]}))
        until = time.monotonic() + 60
        while not seen.get("stable.rate"):
            assert time.monotonic() < until, seen
            httpx2.post(f"{service['url']}v1/completions", json=COMPLETION, timeout=60)
            seen |= json.loads(socket.recv(timeout=60)).get("values", {})
    assert seen["traffic"] == "told"
    assert re.fullmatch(r"Read on the host prague, \d s ago\.", seen["traffic.told.en"])


def test_while_one_web_is_down_no_worker_is_lost(pair: Pair, service: Any):
    pair.web.stop(signal.SIGKILL)
    try:
        until = time.monotonic() + 2 * LOST_AFTER_SECONDS
        while time.monotonic() < until:
            seen = pair.get(pair.brno, "clusters/local/busy/")
            assert (seen["live"], seen["now"]["lost"]) == (True, 0)
            time.sleep(0.5)
    finally:
        pair.web = pair.prague.web()


@pytest.mark.slow
def test_without_its_worker_a_host_s_rows_wait_say_so_and_go_on(site: Site, pair: Pair, service: Any):
    pair.worker.stop(signal.SIGKILL)
    with psycopg.connect(site.postgres.url, autocommit=True) as connection:
        # As a minute later.
        connection.execute("DELETE FROM common_pulse WHERE host = 'prague'")
    pushed(pair, write_version(site.home / "second", seed=2))
    before = _files(pair.prague)
    wish = {"service": "talk", "version": "v2", "reason": "better", "plan": "direct"}
    release = pair.post(pair.brno, "releases/", wish)["id"]
    eventually(lambda: "prague gives no sign of life" in pair.get(pair.brno, "clusters/local/")["problem"])
    told = pair.parts(pair.brno)["hosts"]
    assert (told["ok"], "prague" in told["detail"]) == (False, True)
    assert pair.get(pair.brno, f"releases/{release}/")["state"] == "pending"
    assert _files(pair.prague) == before
    answer = httpx2.post(f"{service['url']}v1/completions", json=COMPLETION, timeout=60)
    assert answer.status_code == 200
    pair.worker = pair.start_worker()
    eventually(lambda: pair.promoted(release))
    eventually(lambda: not pair.get(pair.brno, "clusters/local/")["problem"])


def test_a_directory_that_one_host_has_is_imported_through_the_web_of_the_other(pair: Pair, version: Any):
    directory = write_version(pair.prague.home / "imports" / "third", seed=3)
    made = pair.post(pair.brno, "models/talk/versions/", {"source": str(directory)})
    path = f"models/talk/versions/{made['name']}/"
    eventually(lambda: pair.get(pair.brno, path)["state"] != "importing")
    found = pair.get(pair.brno, path)
    assert (found["state"], found["source"]["uri"]) == ("ready", f"file://prague{directory}")


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _deployment(pair: Pair) -> str:
    (found,) = [one["name"] for one in pair.get(pair.brno, "deployments/?state=ready")["results"]][:1]
    return str(found)


def _files(host: Host) -> dict[str, int]:
    """Return the files that tell the data plane what to do, and when each was last written."""
    places = (host.home / "run/envoy", host.home / "run/deployments")
    return {str(file): file.stat().st_mtime_ns for place in places for file in place.rglob("*.json")}
