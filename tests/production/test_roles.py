"""`slipway-server`: each role starts, says how it fares, stops, and says what it lacks."""

import json
import socket
import tarfile
from pathlib import Path

import httpx2
import pytest

from tests.production.site import Host, Role, Site, eventually, free_port

pytestmark = [pytest.mark.process, pytest.mark.any_database]


def test_what_is_not_prepared_is_refused_with_what_to_do(site: Site):
    other = site.postgres.url.removesuffix("slipway") + "postgres"
    refused = site.host("unprepared", SLIPWAY_DATABASE_URL=other).run("web")
    assert refused.returncode == 2
    assert "There are no static files" in refused.stderr
    assert "The database is older than this code" in refused.stderr
    assert refused.stderr.count("slipway-server prepare") == 2


def test_missing_settings_are_named(site: Site):
    bare = site.host("bare")
    del bare.environment["SLIPWAY_AUDIT_KEY"], bare.environment["SLIPWAY_REDIS_URL"]
    refused = bare.run("web")
    assert refused.returncode == 2
    assert "SLIPWAY_AUDIT_KEY is not set" in refused.stderr
    assert "SLIPWAY_REDIS_URL is not set" in refused.stderr


def test_prepared_again_nothing_changes(host: Host):
    before = host.token
    again = host.run("prepare")
    assert again.returncode == 0, again.stderr
    assert host.token == before


def test_a_web_is_probed_by_address_and_tells_details_to_its_own_only(host: Host, web: Role):
    by_address = {"Host": "10.1.2.3:8000"}
    assert httpx2.get(f"{host.url}/healthz", headers=by_address, timeout=60).text == "ok\n"
    told = httpx2.get(f"{host.url}/readyz", headers=by_address, timeout=60)
    assert told.status_code == 200
    assert all(set(part) == {"ok", "vital"} for part in told.json()["parts"].values())
    in_detail = httpx2.get(f"{host.url}/readyz", headers=with_token(host), timeout=60).json()
    assert in_detail["parts"]["database"]["detail"] == "postgresql"
    forged = httpx2.get(f"{host.url}/readyz", headers={"X-Slipway-Readiness": "0" * 64}, timeout=60).json()
    assert "detail" not in forged["parts"]["database"]
    assert host.run("health", "web").stdout == "web: ready\n"
    assert "Traceback" not in web.log


@pytest.mark.usefixtures("web")
def test_a_web_without_redis_answers_and_says_what_is_away(site: Site, host: Host):
    site.valkey.stop()
    try:
        told = httpx2.get(f"{host.url}/readyz", headers=with_token(host), timeout=30)
        assert told.status_code == 200
        assert told.json()["parts"]["redis"]["ok"] is False
        assert httpx2.get(f"{host.url}/accounts/login/", timeout=60).status_code == 200
    finally:
        site.valkey.start()


@pytest.mark.usefixtures("web")
@pytest.mark.parametrize("path", ["/metrics", "/api/schema/"])
def test_measures_and_schema_are_for_who_has_a_token(host: Host, path: str):
    assert httpx2.get(f"{host.url}{path}", timeout=60).status_code in (401, 403)
    assert httpx2.get(f"{host.url}{path}", headers=with_token(host), timeout=60).status_code == 200


def test_who_takes_rows_forks_answers_on_its_health_port_and_stops_when_asked(site: Site, host: Host):
    ports = {"sweeper": free_port(), "worker": free_port()}
    roles = {name: host.start(name, "--health-port", str(port)) for name, port in ports.items()}
    for port in ports.values():
        eventually(lambda port=port: answers(f"http://127.0.0.1:{port}/readyz"))
        assert httpx2.get(f"http://127.0.0.1:{port}/healthz", timeout=60).text == "ok\n"
    for name, port in ports.items():
        address = f"http://127.0.0.1:{port}/metrics"
        assert httpx2.get(address, timeout=60).status_code == 401

        def pools(name: str = name, address: str = address) -> bool:
            told = httpx2.get(address, headers=with_token(host), timeout=60).text
            return (
                f'slipway_part_up{{part="{name}"}} 1.0' in told and "slipway_database_pool_limit{pid=" in told
            )

        eventually(pools)
    assert host.run("health", "worker").returncode == 0
    assert site.connections() <= 5 * 12
    for role in roles.values():
        assert role.stop() == 0
        assert "Traceback" not in role.log


def test_a_health_port_that_is_taken_is_refused(host: Host):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        role = host.start("sweeper", "--health-port", str(taken.getsockname()[1]))
        assert role.process.wait(60) == 2
        assert "cannot listen" in role.log


def test_a_gateway_that_is_stopped_and_a_node_leave_nothing(host: Host):
    gateway, node = host.start("gateway"), host.start("node")
    ready = f"http://127.0.0.1:{host.admin_port}/ready"
    eventually(lambda: answers(ready))
    node.says("The node is ready.")
    for name in ("gateway", "node"):
        assert host.run("health", name).returncode == 0
    assert gateway.stop() == 0
    assert node.stop() == 0
    assert host.run("health", "node").returncode == 1


def test_no_role_of_that_name(host: Host):
    refused = host.run("health", "wbe")
    assert refused.returncode == 2
    assert "web, worker, sweeper, gateway, node" in refused.stderr


def answers(url: str) -> bool:
    try:
        return httpx2.get(url, timeout=10).status_code == 200
    except httpx2.TransportError:
        return False


def with_token(host: Host) -> dict[str, str]:
    return {"Authorization": f"Bearer {host.token}"}


def test_a_bundle_is_made_while_database_and_redis_are_away(site: Site, host: Host, tmp_path: Path):
    away = host.twin(
        SLIPWAY_DATABASE_URL=f"postgresql://slipway:planted-password@127.0.0.1:{free_port()}/slipway",
        SLIPWAY_REDIS_URL=f"redis://:planted-in-redis@127.0.0.1:{free_port()}/0",
    )
    file = tmp_path / "bundle.tar.gz"
    done = away.run("bundle", str(file))
    assert done.returncode == 0, done.stderr
    assert "rows in trouble is missing: " in done.stdout
    with tarfile.open(file) as archive:
        files = {name.rpartition("/")[2]: archive.extractfile(name).read() for name in archive.getnames()}
    parts = json.loads(files["health.json"])["parts"]
    assert (parts["database"]["ok"], parts["redis"]["ok"]) == (False, False)
    everything = b"".join(files.values())
    for secret in ("planted-password", "planted-in-redis", site.settings["SLIPWAY_SECRET_KEY"], host.token):
        assert secret.encode() not in everything
