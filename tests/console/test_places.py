"""Where the navigation leads, and how every state looks."""

import re
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest
from django.db.models import TextChoices
from django.http import HttpResponse
from django.test import Client
from django.urls import Resolver404, resolve

from accounts.actors import of_user
from accounts.states import Role
from common.choices import all_choices
from common.pages.badges import badges_named
from common.pages.search import SearchDestination, destinations
from common.pages.shell import Tab, nav_items, tabs
from controlplane.installed import offered
from tests import cast

BASE = Path(__file__).parents[2] / "templates/base.html"
SHOWN = [one for one in all_choices() if one.badges]


def test_every_link_of_the_frame_leads_somewhere():
    literal = set(re.findall(r'(?:href|action|hx-get)="(/[^"{#]*)"', BASE.read_text()))
    wanted = literal | {place.path for place in nav_items()}
    assert {"/settings/account/", "/settings/tokens/", "/search/"} <= wanted
    for path in wanted:
        try:
            resolve(path)
        except Resolver404:
            pytest.fail(f"The frame leads to {path}, which nobody serves.")


@pytest.mark.parametrize("module", list(offered("states")))
def test_the_manifest_of_an_app_names_all_of_its_choices(module):
    declared = {value for value in vars(import_module(module)).values() if is_choices(value, module)}
    assert declared <= {one.of for one in all_choices() if isinstance(one.of, type)}


def is_choices(value: object, module: str) -> bool:
    return isinstance(value, type) and issubclass(value, TextChoices) and value.__module__ == module


@pytest.mark.parametrize("shown", SHOWN, ids=lambda one: one.badges)
def test_every_state_has_a_word_a_colour_and_an_icon(shown):
    assert {value for value in shown.of.values if value} <= set(badges_named(shown.badges))


FORM = re.compile(r'<form[^>]*method="post"')
WHO = {
    **{role.value: {"vision": role.value} for role in Role},
    "of no team": {},
    "administrator": {"superuser": True},
}


def main_of(answer: HttpResponse) -> str:
    return answer.content.decode().partition("<main")[2].partition("</main>")[0]


@pytest.mark.any_database
@pytest.mark.django_db
@pytest.mark.parametrize("who", WHO)
def test_whoever_is_offered_a_page_may_open_it_and_whoever_may_not_is_offered_none(who: str) -> None:
    client = Client()
    cast.team("vision")
    user = cast.person("vic", **WHO[who])
    client.force_login(user)
    actor = of_user(user)

    @cache
    def opened(url: str) -> HttpResponse:
        return client.get(url, follow=True)

    for one in (*nav_items(), *tabs(), *destinations()):
        url = one.url if isinstance(one, SearchDestination) else one.path
        answer = opened(url)
        if one.is_open_to(actor):
            assert answer.status_code == 200, url
        elif isinstance(one, SearchDestination) and one.is_command:
            assert answer.status_code in (403, 404) or not FORM.search(main_of(answer)), url
        else:
            assert answer.status_code == 403, url
    for link in (*nav_items(), *tabs()):
        over = link.under if isinstance(link, Tab) else "/settings/"
        shown = opened(over).content.decode()
        assert (f'href="{link.path}"' in shown) == link.is_open_to(actor), link.path
