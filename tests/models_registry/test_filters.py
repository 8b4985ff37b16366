"""What narrows the lists of models and of versions, over REST and on the pages alike."""

import re

import pytest
from django.test import Client

from accounts.actors import of_user
from accounts.models import Membership, User
from common.filters import CountField
from common.pages import filter_bars
from models_registry import references as uses
from models_registry.services import aliases, archiving, catalogue
from tests import cast
from tests.models_registry.uses import used_by


@pytest.fixture
def shelf(library, ada, actor, model, monkeypatch) -> None:
    """Versions 1 and 2 of tiny, both tagged, the second in production and served; big belongs to bo."""
    for fill in (b"\x01", b"\x02"):
        version = library.ready(actor, model, fill=fill)
        archiving.tag_version(actor=actor, version=version, add=[f"run={fill[0]}"])
    aliases.set_alias(actor=actor, model=model, alias="production", version=version)
    monkeypatch.setattr(uses, "_uses", [used_by(version, "service chat (stable)")])
    bo = cast.person("bo", speech="developer", vision="developer")
    catalogue.create_model(
        actor=of_user(bo),
        team=cast.team("speech"),
        name="big",
        task="automatic-speech-recognition",
        description="Trained at the \u00c9COLE.",
    )
    Membership.objects.create(user=ada, team=cast.team("speech"), role="viewer")


MODELS = [
    ("", ["big", "tiny"]),
    ("q=speech", ["big"]),
    ("q=BIG+Automatic", ["big"]),
    ("q=%C3%89cole", ["big"]),
    ("q=Produc+Vision", ["tiny"]),
    ("q=big+tiny", []),
    ("q=100%25", []),
    ("team=speech", ["big"]),
    ("task=Text", ["tiny"]),
    ("created_by=b", ["big"]),
    ("served=true", ["tiny"]),
    ("served=false", ["big"]),
    ("architecture=llama&format=safetensors", ["tiny"]),
    ("parameters_min=64&parameters_max=1K", ["tiny"]),
    ("parameters_min=0.1k", []),
    ("parameters_min=1000000000000000000", []),
    ("parameters_max=9223372036854775807", ["tiny"]),
    ("alias=Prod", ["tiny"]),
    ("alias=staging", []),
    ("tag=run%3D1", ["tiny"]),
    ("tag=run", []),
    ("versions=failed", []),
]
VERSIONS = [
    ("", ["v2", "v1"]),
    ("q=run%3D1", ["v1"]),
    ("state=ready", ["v2", "v1"]),
    ("state=archived&state=failed", []),
    ("served=true", ["v2"]),
    ("served=false", ["v1"]),
    ("tag=run", []),
    ("tag=run%3D2", ["v2"]),
    ("alias=production", ["v2"]),
    ("architecture=LLAMA&format=safetensors&parameters_min=64", ["v2", "v1"]),
    ("parameters_max=63", []),
    ("created_by=ada", ["v2", "v1"]),
    ("created_by=da", []),
]
BAD = [
    ("served=perhaps", "served"),
    ("format=pickle", "format"),
    ("parameters_min=many", "parameters_min"),
    ("parameters_max=99999999T", "parameters_max"),
    ("parameters_max=9223372036854775808", "parameters_max"),
    (f"alias={'x' * 300}", "alias"),
]


@pytest.mark.parametrize(
    ("rest", "page", "links", "cases", "bad"),
    [
        ("models/", "/models/", r'row-link" href="/models/([^/"]+)/"', MODELS,
         [*BAD, ("team=nobody", "team"), ("versions=ready", "versions")]),
        ("models/tiny/versions/", "/models/tiny/", r'row-link" href="/models/tiny/([^/"]+)/"', VERSIONS,
         [*BAD[:-2], ("state=gone", "state"), ("state=deleted", "state")]),
    ],
    ids=["models", "versions"],
)  # fmt: skip
def test_rest_and_page_are_narrowed_alike_and_say_what_makes_no_sense(
    shelf, ada, rest, page, links, cases, bad
) -> None:
    api, browser = cast.api(ada), Client()
    browser.force_login(ada)
    for query, names in cases:
        answer = api.get(f"{rest}?{query}")
        assert answer.status_code == 200, (query, answer.json())
        assert [row["name"] for row in answer.json()["results"]] == names, query
        assert re.findall(links, browser.get(f"{page}?{query}").content.decode()) == names, query
    for query, field in bad:
        answer = api.get(f"{rest}?{query}")
        assert (answer.status_code, list(answer.json()["errors"])) == (400, [field]), query
        told = browser.get(f"{page}?{query}", headers={"HX-Request": "true", "HX-Target": "listing"})
        assert told.status_code == 200
        assert "listing-fault" in told.content.decode(), query
    assert "no such parameter" in str(api.get(f"{rest}?colour=blue").json()["errors"]["colour"])


@pytest.mark.parametrize(
    ("query", "field", "sentence"),
    [
        ("models/?served=1", "served", "Give one of: true, false."),
        ("models/?format=GGUF", "format", "Give one of: safetensors, gguf, onnx."),
        ("models/?versions=ready", "versions", "Give one of: importing, failed, refused."),
        (
            "models/tiny/versions/?state=ready&state=deleted",
            "state",
            "Give one of: importing, ready, archived, failed, refused.",
        ),
    ],
)
def test_a_filter_without_such_a_value_names_those_that_it_has(
    shelf, ada, query: str, field: str, sentence: str
) -> None:
    assert cast.api(ada).get(query).json()["errors"] == {field: [sentence]}


def test_a_parameter_of_one_value_is_given_once(shelf, ada) -> None:
    answer = cast.api(ada).get("models/?team=vision&team=speech&sort=name&sort=-name&q=a&limit=1&limit=1")
    assert (answer.status_code, answer.json()["errors"]) == (
        400,
        {name: ["Give it once."] for name in ("limit", "sort", "team")},
    )
    assert cast.api(ada).delete("models/tiny/?reason=a&reason=b").status_code == 400


def test_further_filters_are_folded_away_until_one_is_used(shelf, ada) -> None:
    browser = Client()
    browser.force_login(ada)
    assert '<details class="filters-more">' in browser.get("/models/").content.decode()
    assert '<details class="filters-more" open>' in browser.get("/models/?tag=run").content.decode()


def test_everybody_is_offered_their_own_teams_and_what_they_have_chosen(shelf, ada) -> None:
    def offered(person: User, address: str) -> list[tuple[str, str]]:
        browser = Client()
        browser.force_login(person)
        page = browser.get(address).content.decode()
        teams = page[page.index('name="team"') : page.index("</select>", page.index('name="team"'))]
        return re.findall(r'<option value="(\w+)"( selected)?>', teams)

    cy = cast.person("cy", speech="viewer")
    for _ in range(2):
        assert offered(ada, "/models/") == [("speech", ""), ("vision", "")]
        assert offered(cy, "/models/") == [("speech", "")]
        assert offered(ada, "/models/?team=vision") == [("speech", ""), ("vision", " selected")]
        assert offered(cy, "/models/?team=vision") == [("speech", "")]


def test_forms_of_filters_are_kept_up_to_so_many_characters(shelf, ada, monkeypatch) -> None:
    browser, kept = Client(), dict[tuple[object, ...], str]()
    browser.force_login(ada)
    monkeypatch.setattr(filter_bars, "_kept", kept)
    browser.get("/models/")
    one = sum(map(len, kept.values()))
    monkeypatch.setattr(filter_bars, "MAX_KEPT", 5 * one)
    for number in range(20):
        browser.get(f"/models/?q=word-{number}")
        assert one <= sum(map(len, kept.values())) <= 5 * one


@pytest.mark.parametrize(
    ("text", "count"),
    [("7B", 7 * 10**9), ("1.5b", 15 * 10**8), ("70 M", 7 * 10**7), ("123", 123), ("0", 0), ("", None)],
)
def test_numbers_of_parameters_are_read_as_people_write_them(text: str, count: int | None) -> None:
    assert CountField(required=False).clean(text) == count


@pytest.mark.parametrize(
    ("address", "chosen"),
    [("", []), ("?state=ready", ["ready"]), ("?state=ready&state=failed", ["ready", "failed"])],
)
def test_a_state_is_chosen_on_the_page_if_the_address_names_it(
    shelf, browser: Client, address: str, chosen: list[str]
) -> None:
    page = browser.get(f"/models/tiny/{address}").content.decode()
    states = page[page.index('name="state"') : page.index("</select>", page.index('name="state"'))]
    offered = re.findall(r'<option value="(\w*)"( selected)?>([^<]+)', states)
    assert offered[0] == ("", "", "All but archived")
    assert sorted(value for value, selected, _ in offered if selected) == sorted(chosen)
