"""Two webs behind nginx, as deploy/host has both, are restarted one after the other under load."""

import re
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from controlplane.environment import PROJECT
from tests.certificates import self_signed
from tests.e2e.conftest import write_version
from tests.production.site import Host, Site, eventually, free_port

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
pytestmark = [
    pytest.mark.process,
    pytest.mark.any_database,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(NGINX is None, reason="there is no nginx here"),
]
DEPLOY = PROJECT / "deploy/host"
NAME = "slipway.example.org"
RESTARTED = 1012
AT_LEAST = 200
"""Requests of one client over the restarts, so that a quiet test says nothing."""


def drain_seconds() -> str:
    unit = (DEPLOY / "systemd/slipway-web@.service").read_text()
    found = re.search(r"^Environment=SLIPWAY_DRAIN_SECONDS=(\d+)$", unit, re.MULTILINE)
    assert found
    return found[1]


class Nginx:
    """An nginx with the shipped file, whose addresses and certificate are of this machine."""

    def __init__(self, place: Path, webs: tuple[Host, Host]) -> None:
        self.port = free_port()
        key, certificate = place / "key.pem", place / "fullchain.pem"
        self_signed(certificate, key, of=f"DNS:{NAME}")
        text = (DEPLOY / "nginx/slipway.conf").read_text()
        for shipped, here in (
            ("127.0.0.1:8000", f"127.0.0.1:{webs[0].port}"),
            ("127.0.0.1:8001", f"127.0.0.1:{webs[1].port}"),
            ("listen 443", f"listen 127.0.0.1:{self.port}"),
            ("/etc/ssl/slipway", str(place)),
        ):
            assert shipped in text
            text = text.replace(shipped, here)
        (place / "slipway.conf").write_text(text)
        kept = "".join(
            f"{kind}_temp_path {place / kind};\n"
            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        main = place / "nginx.conf"
        main.write_text(
            f"daemon off;\npid {place / 'pid'};\nerror_log {place / 'error.log'} warn;\n"
            f"events {{}}\nhttp {{\naccess_log off;\n{kept}include {place / 'slipway.conf'};\n}}\n"
        )
        self.trust = ssl.create_default_context(cafile=str(certificate))
        self.trust.check_hostname = False  # Clients go to an address here.
        self._process = subprocess.Popen([str(NGINX), "-p", str(place), "-c", str(main)])
        eventually(self._listens, seconds=20)

    def _listens(self) -> bool:
        assert self._process.poll() is None
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def client(self, token: str) -> httpx2.Client:
        headers = {"Host": NAME, "Authorization": f"Bearer {token}"}
        client = httpx2.Client(base_url=f"https://127.0.0.1:{self.port}", headers=headers, verify=self.trust)
        client.timeout = 60
        return client

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(30)


class Load:
    """Clients that each do one thing again and again, and count how it went."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, object]] = Counter()
        self._done = threading.Event()
        self._threads: list[threading.Thread] = []

    def add(self, name: str, act: Callable[[], object]) -> None:
        def again() -> None:
            while not self._done.wait(0.02):
                try:
                    self.counts[name, act()] += 1
                except Exception as error:
                    self.counts[name, repr(error)] += 1

        self._threads.append(threading.Thread(target=again, name=name, daemon=True))
        self._threads[-1].start()

    def end(self) -> Counter[tuple[str, object]]:
        """Return what has been counted; threads that still run are left."""
        self._done.set()
        for thread in self._threads:
            thread.join(2)
        return Counter(self.counts)


@pytest.fixture
def webs(tmp_path: Path) -> Iterator[tuple[Host, Host]]:
    site = Site(
        tmp_path,
        SLIPWAY_DATABASE_CONNECTIONS="12",
        SLIPWAY_HTTPS="true",
        SLIPWAY_ALLOWED_HOSTS=NAME,
        SLIPWAY_PUBLIC_URL=f"https://{NAME}",
        SLIPWAY_TRUSTED_PROXIES="127.0.0.1",
        SLIPWAY_DRAIN_SECONDS=drain_seconds(),
    )
    try:
        first = site.host()
        first.prepare()
        yield first, first.twin()
    finally:
        site.close()


def follow(nginx: Nginx, token: str) -> int:
    """Follow a page's socket past its snapshot; return the code with which it was closed."""
    raw = socket.create_connection(("127.0.0.1", nginx.port), timeout=30)
    headers = {"Authorization": f"Bearer {token}"}
    with connect(
        f"wss://{NAME}/ws/fleet/", sock=raw, ssl=nginx.trust, additional_headers=headers, open_timeout=30
    ) as page:
        assert '"snapshot"' in str(page.recv(timeout=30))
        try:
            while True:
                page.recv(timeout=60)
        except ConnectionClosed as closed:
            return closed.rcvd.code if closed.rcvd else 1006


def test_no_request_and_no_socket_is_lost_while_webs_restart_one_after_the_other(
    webs: tuple[Host, Host], tmp_path: Path
):
    running = [host.web() for host in webs]
    token = webs[0].token
    (tmp_path / "nginx").mkdir()
    nginx = Nginx(tmp_path / "nginx", webs)
    load = Load()
    try:
        with nginx.client(token) as asking, nginx.client(token) as making, nginx.client(token) as following:
            made = making.post("/api/v1/models/", json={"name": "parrot", "task": "text-generation"})
            assert made.status_code == 201, made.text
            source = write_version(webs[0].home / "imports/v1", seed=1)
            path = "/api/v1/models/parrot/versions/"
            assert making.post(path, json={"source": str(source), "version": "v1"}).status_code == 202
            numbers = iter(range(100_000))

            def make() -> int:
                body = {"name": f"m{next(numbers)}", "task": "text-generation"}
                return making.post("/api/v1/models/", json=body).status_code

            def listen() -> str:
                """Nothing takes the import, so that its events have no end of their own."""
                begun = time.monotonic()
                with following.stream("GET", f"{path}v1/events/") as stream:
                    lines = stream.iter_lines()
                    first = next(lines)
                    assert time.monotonic() - begun < 10
                    for _ in lines:
                        pass
                return first

            load.add("read", lambda: asking.get("/api/v1/models/").status_code)
            load.add(
                "read anew",
                lambda: asking.get("/api/v1/models/?limit=1", headers={"Connection": "close"}).status_code,
            )
            load.add("make", make)
            load.add("events", listen)
            for _ in range(4):
                load.add("socket", lambda: follow(nginx, token))
            time.sleep(2)
            for place, host in enumerate(webs):
                leaving = running[place]
                leaving.process.send_signal(signal.SIGTERM)
                unready = eventually(lambda host=host: not_ready(host), seconds=20)
                assert unready["draining"] is True
                assert leaving.process.wait(60) in (0, -signal.SIGTERM), leaving.log
                running[place] = host.web()
                eventually(lambda host=host: ready(host), seconds=60)
            time.sleep(2)
            counts = load.end()
    finally:
        load.end()
        nginx.stop()
    good = {
        ("read", 200),
        ("read anew", 200),
        ("make", 201),
        ("events", "retry: 2000"),
        ("socket", RESTARTED),
    }
    assert set(counts) == good, counts
    assert min(counts["read", 200], counts["read anew", 200], counts["make", 201]) > AT_LEAST
    assert counts["socket", RESTARTED] >= 4


def ready(host: Host) -> bool:
    return httpx2.get(f"{host.url}/readyz", timeout=10).status_code == 200


def not_ready(host: Host) -> dict[str, object] | None:
    answer = httpx2.get(f"{host.url}/readyz", timeout=10)
    return dict(answer.json()) if answer.status_code == 503 else None
