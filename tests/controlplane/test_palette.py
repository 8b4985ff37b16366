"""The search box finds the console's own pages and commands, people and workers, each for whom they are."""

import pytest

from common.pages.icons import icon
from common.pages.search import destinations, find
from tests.cast import client_of, person

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]


def titles(who, text: str, group: str = "Pages and commands") -> list[str]:
    return [hit.title for found in find(who, text) if found.name == group for hit in found.hits]


def test_a_command_is_found_by_its_words_and_only_by_whom_it_is_for() -> None:
    developer, viewer = person("ada", vision="developer"), person("vic", vision="viewer")
    assert titles(developer, "new serv") == ["New service"]
    assert titles(developer, "create token") == ["Create API token"]
    assert titles(viewer, "new serv") == []
    assert "New person" not in titles(developer, "new")
    assert "New person" in titles(person("root", superuser=True), "new")


def test_a_page_is_found_by_what_else_it_is_called_titles_first() -> None:
    viewer = person("vic", vision="viewer")
    assert titles(viewer, "nodes") == ["Fleet"]
    assert titles(viewer, "re")[0] == "Releases"


@pytest.mark.parametrize("entry", destinations(), ids=lambda entry: entry.url)
def test_every_entry_leads_to_a_page_and_has_an_icon(entry) -> None:
    assert client_of(person("root", superuser=True, vision="admin")).get(entry.url).status_code in (200, 302)
    assert icon(entry.icon)


def test_people_are_found_by_their_colleagues_alone() -> None:
    ada = person("ada", vision="developer")
    person("bob", vision="viewer")
    person("eve", another="admin")
    assert titles(ada, "b", "People") == ["bob"]
    assert titles(ada, "eve", "People") == []
