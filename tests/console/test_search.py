import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AnonymousUser
from django.test import Client

from common.pages import search
from common.pages.search import SearchHit, SearchSource

HTMX = {"HX-Request": "true", "HX-Target": "found"}


def models(person: search.Person, text: str, limit: int) -> list[SearchHit]:
    names = ["llama-chat", "llama-embed", "qwen"]
    return [SearchHit(name, f"/models/{name}/", "box", "v3") for name in names if text in name]


@pytest.fixture
def only_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """The only one: what the apps offer is tested with them."""
    monkeypatch.setattr(search, "_searches", [])
    search.offer(SearchSource("Models", models))


@pytest.fixture
def ada(db: None, client: Client) -> Client:
    client.force_login(get_user_model().objects.create_user("ada", password="x" * 12))
    return client


def test_groups_without_hits_are_left_out(only_models: None) -> None:
    assert search.find(AnonymousUser(), "nothing") == []
    [group] = search.find(AnonymousUser(), " llama ")
    assert [hit.title for hit in group.hits] == ["llama-chat", "llama-embed"]


def test_nothing_typed_asks_nobody(only_models: None) -> None:
    assert search.find(AnonymousUser(), "   ") == []


def test_a_search_that_finds_too_much_is_cut(only_models: None) -> None:
    [group] = search.find(AnonymousUser(), "llama", limit=1)
    assert len(group.hits) == 1


def test_a_search_that_fails_does_not_silence_the_others(only_models: None, caplog) -> None:
    def broken(person: search.Person, text: str, limit: int) -> list[SearchHit]:
        raise ConnectionError("the fleet is away")

    search.offer(SearchSource("Fleet", broken))
    groups = {group.name: group for group in search.find(AnonymousUser(), "llama")}
    assert groups["Fleet"].failed
    assert len(groups["Models"].hits) == 2
    assert "the fleet is away" in caplog.text


def test_the_box_gets_a_list_and_enter_gets_a_page(only_models: None, ada: Client) -> None:
    part = ada.get("/search/?q=llama", headers=HTMX).content.decode()
    assert part.count('role="option"') == 2
    assert "<html" not in part
    whole = ada.get("/search/?q=llama").content.decode()
    assert "Search for “llama”" in whole
    assert whole.count('href="/models/llama-') == 2


def test_what_was_typed_is_shown_as_text(only_models: None, ada: Client) -> None:
    body = ada.get("/search/?q=<script>alert(1)</script>").content.decode()
    assert "<script>alert(1)" not in body
    assert "&lt;script&gt;alert(1)" in body


def test_strangers_find_nothing(only_models: None, client: Client, db: None) -> None:
    assert client.get("/search/?q=llama", headers=HTMX).status_code == 401
