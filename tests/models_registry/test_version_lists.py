"""Lists of versions: of one model, and over all that somebody may see."""

import orjson
import pytest

from accounts.actors import of_user
from common.api.json import dumps
from models_registry.api.serializers import VersionSerializer, version_shown
from models_registry.selectors import versions as version_selectors
from models_registry.services import aliases, archiving, catalogue
from tests import cast

pytestmark = pytest.mark.django_db


@pytest.fixture
def versions(library, actor, model):
    first = library.ready(actor, model, message="baseline")
    second = library.ready(actor, model, "other", fill=b"\x02", message="tuned")
    aliases.set_alias(actor=actor, model=model, alias="production", version=second, reason="better")
    archiving.tag_version(actor=actor, version=first, add=["nightly"])
    return first, second


def test_they_show_each_version_as_its_serializer_does(model, versions, api) -> None:
    cards = version_selectors.version_cards(version_selectors.newest_versions(model))
    for card in cards:
        shown = orjson.loads(dumps(version_shown(card)))
        assert shown == orjson.loads(dumps(VersionSerializer(card).data))
    first = api.get("models/tiny/versions/").json()
    assert first == api.get("models/tiny/versions/?limit=100").json()
    assert [one["name"] for one in first["results"]] == ["v2", "v1"]


@pytest.fixture
def elsewhere(library, versions):
    """A version of another team's model."""
    owner = cast.person("bob", audio="developer")
    model = catalogue.create_model(actor=of_user(owner), team=cast.team("audio"), name="tiny-voice")
    return library.ready(of_user(owner), model, "voice", fill=b"\x03", message="baseline")


SEARCHES = {
    "q=tuned": ["tiny:v2"],
    "q=tiny+baseline": ["tiny:v1"],
    "model=TI": ["tiny:v2", "tiny:v1"],
    "model=iny": [],
    "tag=nightly": ["tiny:v1"],
    "alias=prod": ["tiny:v2"],
    "state=ready": ["tiny:v2", "tiny:v1"],
    "state=archived": [],
    "source=other": ["tiny:v2"],
    "created_by=ada": ["tiny:v2", "tiny:v1"],
    "team=vision": ["tiny:v2", "tiny:v1"],
}


@pytest.mark.parametrize("asked", SEARCHES)
def test_a_search_over_all_models_finds_what_its_reader_may_see(elsewhere, api, browser, asked: str) -> None:
    found = api.get(f"versions/?{asked}").json()["results"]
    assert [f"{one['model']}:{one['name']}" for one in found] == SEARCHES[asked]
    shown = browser.get(f"/models/+versions/?{asked}").content.decode()
    assert [name for name in ("tiny:v2", "tiny:v1", "tiny-voice:v1") if f">{name}<" in shown] == SEARCHES[
        asked
    ]


def test_a_digest_is_searched_by_its_beginning_and_bad_ones_are_told(elsewhere, versions, api) -> None:
    digest = versions[0].digest
    assert [one["name"] for one in api.get(f"versions/?digest=sha256:{digest[:8]}").json()["results"]] == [
        "v1"
    ]
    assert api.get(f"versions/?digest={elsewhere.digest}").json()["results"] == []
    refused = api.get("versions/?digest=xyz")
    assert refused.json()["errors"]["digest"] == ["Give 4 to 64 hex digits of the digest."]
    assert "There is no such team" in api.get("versions/?team=audio").json()["errors"]["team"][0]


def test_the_search_asks_as_much_for_one_version_as_for_several(
    versions, api, django_assert_num_queries
) -> None:
    api.get("versions/")
    for query in ("limit=1", "limit=100"):
        with django_assert_num_queries(8):
            assert api.get(f"versions/?{query}").status_code == 200
