"""PostgreSQL behind the roles: how many connections they keep, and what happens while it is away."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest

from tests.production.site import Host, Role, Site, eventually

pytestmark = [pytest.mark.process, pytest.mark.any_database]
CLIENTS = 100
BOUND = 12


def ask(host: Host, path: str) -> httpx2.Response:
    return httpx2.get(
        f"{host.url}{path}",
        headers={"Authorization": f"Bearer {host.token}"},
        timeout=60,
        follow_redirects=True,
    )


@pytest.mark.usefixtures("web")
def test_a_hundred_clients_are_answered_over_no_more_connections_than_the_setting(site: Site, host: Host):
    with ThreadPoolExecutor(CLIENTS) as clients:
        asked = [clients.submit(ask, host, "/api/v1/models/") for _ in range(3 * CLIENTS)]
        most = 0
        while not all(one.done() for one in asked):
            most = max(most, site.connections())
    assert Counter(one.result().status_code for one in asked) == {200: 3 * CLIENTS}
    assert 0 < most <= BOUND


def test_while_postgresql_is_away_doors_say_so_and_the_log_says_it_once(site: Site, host: Host, web: Role):
    # Prometheus, which has been here before, hears of it.
    assert ask(host, "/metrics").status_code == 200
    site.postgres.halt()
    try:
        assert ask(host, "/api/v1/models/").status_code == 503
        said = ask(host, "/api/v1/models/")
        assert (said.status_code, said.json()["title"]) == (503, "Service unavailable")
        assert said.headers["Retry-After"]
        page = ask(host, "/")
        assert page.status_code == 503
        assert "The database does not answer" in page.text
        directory = ask(host, "/scim/v2/Users")
        assert (directory.status_code, "json" in directory.headers["Content-Type"]) == (503, True)
        assert ask(host, "/healthz").status_code == 200
        assert ask(host, "/readyz").status_code == 503
        told = ask(host, "/metrics").text
        assert 'slipway_part_up{part="database"} 0.0' in told
        with ThreadPoolExecutor(20) as clients:
            codes = Counter(
                one.status_code for one in clients.map(lambda _: ask(host, "/api/v1/models/"), range(200))
            )
        assert codes == {503: 200}
    finally:
        site.postgres.resume()
    eventually(lambda: ask(host, "/api/v1/models/").status_code == 200)
    assert web.log.count("The database does not answer") == 1
    assert web.log.count("answers again") == 1
    assert "Traceback" not in web.log
