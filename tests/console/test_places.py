"""Where the navigation leads, and how every state looks."""

import re
from importlib import import_module
from pathlib import Path

import pytest
from django.db.models import TextChoices
from django.test import Client
from django.urls import Resolver404, resolve

from common.choices import all_choices
from common.pages.badges import badges_named
from common.pages.shell import nav_items
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


@pytest.mark.parametrize("module", offered("states"))
def test_the_manifest_of_an_app_names_all_of_its_choices(module):
    declared = {value for value in vars(import_module(module)).values() if is_choices(value, module)}
    assert declared <= {one.of for one in all_choices() if isinstance(one.of, type)}


def is_choices(value: object, module: str) -> bool:
    return isinstance(value, type) and issubclass(value, TextChoices) and value.__module__ == module


@pytest.mark.parametrize("shown", SHOWN, ids=lambda one: one.badges)
def test_every_state_has_a_word_a_colour_and_an_icon(shown):
    assert {value for value in shown.of.values if value} <= set(badges_named(shown.badges))


@pytest.mark.any_database
@pytest.mark.django_db
@pytest.mark.parametrize("place", nav_items(), ids=lambda place: place.path)
def test_every_place_opens_for_a_viewer_and_for_an_administrator(place):
    for user in (cast.person("vic", vision="viewer"), cast.person("root", superuser=True)):
        client = Client()
        client.force_login(user)
        answer = client.get(place.path, follow=True)
        is_closed = place.name == "Audit" and not user.is_superuser
        assert answer.status_code == (403 if is_closed else 200)
        assert 'aria-current="page"' in answer.content.decode()
