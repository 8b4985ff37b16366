"""What a viewer is offered: no form that would be refused."""

import re
from collections import deque
from html import unescape
from urllib.parse import urljoin, urlsplit

import pytest
from django.test import Client

from accounts.states import Role
from tests.accounts.rights_matrix import ROUTES, Scene

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("import_root")]

SUBMIT = re.compile(r'<button(?![^>]*(type="button"|disabled))')
OWN = re.compile(r"/accounts/|/language/|/settings/(account|tokens|delegations|webhooks/\+own)/")
"""What everybody may do: sign out, and change what is their own."""
MOST_PAGES = 400


def shape_of(path: str) -> str:
    """Pages of the same kind look alike: one of each is enough."""
    return re.sub(r"[0-9]+", "0", path)


def test_a_viewer_finds_no_form_and_no_link_that_is_refused_on_any_page() -> None:
    scene = Scene.of_role(Role.VIEWER)
    for route in ROUTES:
        if route.method == "GET":
            route.fill(scene)
    client = Client()
    client.force_login(scene.user)
    sources: dict[str, str] = {}
    offered: dict[str, str] = {}
    wanted, seen = deque(["/"]), {"/"}
    while wanted and len(seen) < MOST_PAGES:
        path = wanted.popleft()
        answer = client.get(path, follow=True)
        if answer.status_code == 403:
            offered[path] = f"{sources[path]}: closed"
            continue
        assert answer.status_code in (200, 404), (path, answer.status_code)
        if answer.status_code == 404 or not answer["Content-Type"].startswith("text/html"):
            continue
        body = answer.content.decode()
        for form, content in re.findall(r"(<form[^>]*>)(.*?)</form>", body, re.DOTALL):
            target = re.search(r'(?:action|hx-post)="([^"]*)"', form)
            action = unescape(target[1]) if target else answer.request["PATH_INFO"]
            is_post = 'method="post"' in form or "hx-post" in form
            if is_post and re.search(SUBMIT, content) and not OWN.match(action):
                offered[shape_of(action)] = path
        for address in re.findall(r'(?:href|hx-get)="([^"#]*)', body):
            found = urlsplit(urljoin(path, unescape(address))).path
            if (
                found.startswith("/")
                and not found.startswith(("/static/", "/api/"))
                and shape_of(found) not in seen
            ):
                sources[found] = path
                seen.add(shape_of(found))
                wanted.append(found)
    assert len(seen) > 80
    assert offered == {}
