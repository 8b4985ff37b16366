"""Figures of evaluations: what cards tell, what people and CI record, and what became of them."""

import pytest
from django.test import Client

from accounts.states import Right
from common.errors import WrongState
from common.models import AuditRecord
from models_registry.facts.figures import Figure, compared_figures, figures_of_card
from models_registry.models import Evaluation
from models_registry.services import evaluations, imports, versions
from tests import cast
from tests.models_registry import builders as b

CARD = """---
license: apache-2.0
model-index:
- name: tiny
  results:
  - task: {type: text-generation, name: Text Generation}
    dataset:
      name: MMLU
      type: mmlu
    metrics:
    - {type: acc, name: accuracy, value: 61.5%}
    - type: f1
      value: .nan
    - type: words
      value: very good
    source:
      name: Leaderboard
      url: https://example.org/board
---
# A small model
"""
URL = "models/tiny/versions/v1/evaluations/"


def front(text: str) -> str:
    return text.split("---")[1]


@pytest.fixture
def version(library, actor, model):
    files = b.model_files() | {"README.md": CARD.encode()}
    b.write(library.root / "evaluated", files)
    row = imports.import_version(actor=actor, model=model, source=str(library.root / "evaluated"))
    library.settle()
    row.refresh_from_db()
    return row


def test_a_card_tells_its_figures_and_what_is_no_number_is_left_out() -> None:
    assert figures_of_card(front(CARD)) == (
        Figure(
            name="accuracy",
            dataset="MMLU",
            value=61.5,
            unit="%",
            task="text-generation",
            origin="card",
            link="https://example.org/board",
        ),
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "model-index: 7",
        "model-index: [{results: [{metrics: [{type: acc}]}]}]",
        "model-index: [",
        "- a\n- b",
        "a: &a [1]\nmodel-index: *a",
        "model-index: " + "[" * 10_000,
        "model-index:\n" + "- {results: []}\n" * 30_000,
        "model-index: [{results: [{metrics: [{type: acc, value: 1e999}]}]}]",
        "? {a: b}\n: c",
    ],
)
def test_a_card_that_makes_no_sense_tells_nothing(text: str) -> None:
    assert figures_of_card(text) == ()


def test_figures_are_recorded_again_with_a_history_and_never_touch_the_digest(api, version) -> None:
    one = {"name": "accuracy", "dataset": "mmlu", "value": 0.61, "higher_is_better": True}
    answer = api.put(URL, {"figures": [one, {"name": "ttft", "value": 31, "unit": "ms"}], "reason": "CI."})
    assert answer.status_code == 200, answer.json()
    told = [(f["origin"], f["name"], f["value"], f["unit"]) for f in answer.json()["figures"]]
    assert told == [
        ("recorded", "ttft", 31, "ms"),
        ("recorded", "accuracy", 0.61, ""),
        ("card", "accuracy", 61.5, "%"),
    ]
    api.put(URL, {"figures": [one]})
    assert Evaluation.objects.count() == 2
    api.put(URL, {"figures": [{"name": "accuracy", "dataset": "mmlu", "value": 0.63}]})
    api.put(URL, {"figures": [{"name": "ttft", "value": None}]})
    now = api.get(URL).json()["figures"]
    assert [(f["name"], f["value"], f["higher_is_better"], f["by"]) for f in now] == [
        ("accuracy", 0.63, True, "ada"),
        ("accuracy", 61.5, None, ""),
    ]
    history = api.get(f"{URL}history/").json()["results"]
    assert [(line["name"], line["value"]) for line in history] == [
        ("ttft", None), ("accuracy", 0.63), ("ttft", 31), ("accuracy", 0.61),
    ]  # fmt: skip
    assert AuditRecord.objects.filter(action="version.evaluate").count() == 3
    digest = version.digest
    version.refresh_from_db()
    assert version.digest == digest


NONSENSE: list[list[dict]] = [
    [],
    [{"name": " ", "value": 1}],
    [{"value": 1}],
    [{"name": "a"}],
    [{"name": "a", "value": "many"}],
    [{"name": "a", "value": "inf"}],
    [{"name": "a", "value": 1}, {"name": "a", "value": 2}],
    [{"name": "a", "value": 1, "link": "javascript:alert(1)"}],
    [{"name": "a\x00", "value": 1}],
    [{"name": "x" * 101, "value": 1}],
    [{"name": f"a{n}", "value": 1} for n in range(201)],
]


def test_figures_that_make_no_sense_are_refused(api, version) -> None:
    for figures in NONSENSE:
        answer = api.put(URL, {"figures": figures})
        assert answer.status_code == 400, figures
        assert all(field.startswith("figures") for field in answer.json().get("errors", ())), answer.json()
    assert not Evaluation.objects.exists()


def test_nothing_is_recorded_of_a_deleted_version_or_without_the_right(api, actor, version, ada) -> None:
    figures = {"figures": [{"name": "a", "value": 1}]}
    reader = cast.Api(cast.token_of(ada, scopes=[Right.READ]))
    assert reader.put(URL, figures).status_code == 403
    versions.delete_version(actor=actor, version=version)
    with pytest.raises(WrongState):
        evaluations.evaluate_version(actor=actor, version=version, figures=[evaluations.FigureInput("a", 1)])


def test_the_page_shows_figures_records_one_and_tells_the_history(ada, version) -> None:
    browser = Client()
    browser.force_login(ada)
    given = {"name": "accuracy", "dataset": "mmlu", "value": "0.7", "direction": "true", "link": ""}
    assert browser.post("/models/tiny/v1/+evaluations/", given).status_code == 302
    page = browser.get("/models/tiny/v1/").content.decode()
    assert ">0.7<" in page
    assert ">61.5%<" in page
    assert 'href="https://example.org/board"' in page
    bad = browser.post("/models/tiny/v1/+evaluations/", {"name": ""}, headers={"HX-Request": "true"})
    assert bad.status_code == 422
    forgotten = {"name": "bleu", "dataset": "", "value": "", "direction": "", "link": ""}
    empty = browser.post("/models/tiny/v1/+evaluations/", forgotten, headers={"HX-Request": "true"})
    assert (empty.status_code, "Give its value" in empty.content.decode()) == (422, True)


def test_two_versions_are_compared_by_dataset_and_name_in_the_direction_that_was_told() -> None:
    def figure(value: float, **told) -> Figure:
        return Figure(name="loss", dataset="wiki", value=value, **told)

    (found,) = compared_figures(
        [figure(2.0, is_higher_better=False)], [figure(9.0, origin="card"), figure(1.5)]
    )
    assert (found.difference, found.is_better, found.difference_text) == (-0.5, True, "-0.5")
    (other,) = compared_figures([figure(2.0)], [figure(1.5, unit="%")])
    assert (other.difference, other.is_better) == (None, None)
    (gone,) = compared_figures([figure(2.0)], [])
    assert gone.either.value == 2.0
    assert gone.after is None


def test_a_figure_is_shown_with_all_the_digits_that_it_has() -> None:
    def figure(value: float) -> Figure:
        return Figure(name="tokens", dataset="", value=value)

    assert figure(123_456_789_012_345.0).text == "123456789012345"
    assert figure(68.43000000000001).text == "68.43"
    (change,) = compared_figures([figure(0.8)], [figure(0.9)])
    assert change.difference_text == "+0.1"
