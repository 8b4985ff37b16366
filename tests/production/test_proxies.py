"""Behind a proxy that ends TLS: whom the console believes, and whom it locks out."""

import httpx2
import pytest

from tests.production.site import Host, Role

pytestmark = [pytest.mark.process, pytest.mark.any_database]
LOCKED = 429


@pytest.fixture(scope="module")
def behind(host: Host) -> Host:
    """The same installation with HTTPS on, behind a proxy on this machine."""
    made = host.twin(SLIPWAY_HTTPS="true", SLIPWAY_TRUSTED_PROXIES="127.0.0.1", SLIPWAY_LOCKOUT_AFTER="3")
    made.web()
    return made


def sign_in(host: Host, name: str, client: str, *, scheme: str = "https") -> int:
    """Status of an attempt with a wrong password, as the proxy passes it on for a client."""
    with httpx2.Client(base_url=host.url, timeout=60) as browser:
        browser.headers |= {"X-Forwarded-For": client, "X-Forwarded-Proto": scheme}
        origin = {
            "Referer": f"{scheme}://127.0.0.1:{host.port}/",
            "Origin": f"{scheme}://127.0.0.1:{host.port}",
        }
        page = browser.get("/accounts/login/")
        token = page.cookies["csrftoken"]
        form = {"login": name, "password": "wrong", "csrfmiddlewaretoken": token}
        cookies = {"Cookie": f"csrftoken={token}"}
        return browser.post("/accounts/login/", data=form, headers=origin | cookies).status_code


def test_probes_are_answered_without_tls_and_pages_are_sent_to_it(behind: Host):
    assert httpx2.get(f"{behind.url}/healthz", timeout=60).status_code == 200
    assert httpx2.get(f"{behind.url}/readyz", timeout=30).status_code == 200
    sent = httpx2.get(f"{behind.url}/accounts/login/", timeout=60)
    assert sent.status_code == 301
    assert sent.headers["Location"].startswith("https://")
    answered = httpx2.get(f"{behind.url}/accounts/login/", headers={"X-Forwarded-Proto": "https"}, timeout=60)
    assert answered.status_code == 200
    assert "secure" in answered.headers["Set-Cookie"].lower()


def test_a_lockout_is_the_attacker_s_and_not_everybody_s(behind: Host):
    codes = [sign_in(behind, "admin", "203.0.113.7") for _ in range(4)]
    assert codes[0] == 200
    assert codes[-1] == LOCKED
    assert sign_in(behind, "admin", "198.51.100.4") != LOCKED


def test_who_forges_the_header_without_a_proxy_is_counted_all_the_same(host: Host):
    direct = host.twin(SLIPWAY_LOCKOUT_AFTER="3")
    role: Role = direct.web()
    codes = [sign_in(direct, "eve", f"203.0.113.{number}", scheme="http") for number in range(4)]
    assert codes[-1] == LOCKED
    role.stop()
