"""Two versions side by side."""

import json

import pytest
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from model_store.file_manifest import ManifestFile
from models_registry.facts.comparison import compared, compared_texts, flattened
from models_registry.models import Version
from models_registry.services import evaluations, imports
from models_registry.views.comparison import _facts
from tests import cast
from tests.models_registry import builders as b

listings = st.dictionaries(st.sampled_from("abcdef"), st.tuples(st.sampled_from("0123"), st.integers(0, 9)))
configs = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(0, 2), st.sampled_from([0.0, 1.0, "x"])),
    lambda inner: st.dictionaries(st.sampled_from("xyz"), inner, max_size=3),
    max_leaves=6,
)


def files(listing: dict) -> list[ManifestFile]:
    return [ManifestFile(path, size, content * 64) for path, (content, size) in listing.items()]


@given(listings, listings)
def test_every_file_is_same_changed_added_or_removed_and_its_bytes_count_once(one: dict, other: dict) -> None:
    found = compared(files(one), files(other), config_before={}, config_after={})
    assert {file.path for file in found.files} == one.keys() | other.keys()
    kinds = ("same", "changed", "added", "removed")
    assert sum(found.count_of(kind) for kind in kinds) == len(found.files)
    after = sum(found.bytes_of(kind) for kind in ("same", "changed", "added"))
    assert after == sum(size for _, size in other.values())
    turned = compared(files(other), files(one), config_before={}, config_after={})
    assert turned.count_of("added") == found.count_of("removed")
    assert turned.count_of("changed") == found.count_of("changed")


@given(st.dictionaries(st.sampled_from("ab"), configs), st.dictionaries(st.sampled_from("ab"), configs))
def test_only_config_keys_that_differ_are_listed(one: dict, other: dict) -> None:
    found = compared([], [], config_before=one, config_after=other)
    before, after = flattened(one), flattened(other)
    differing = {
        key for key in before.keys() | after.keys() if repr(before.get(key, "-")) != repr(after.get(key, "-"))
    }
    assert {change.key for change in found.config} == differing


def test_truth_one_and_one_point_nought_are_three_values() -> None:
    found = compared([], [], config_before={"a": True, "b": 1}, config_after={"a": 1, "b": 1.0})
    assert [change.change for change in found.config] == ["changed", "changed"]


def test_a_key_that_became_null_has_changed_and_not_gone() -> None:
    found = compared([], [], config_before={"a": 1, "b": None}, config_after={"a": None})
    assert [(change.key, change.change) for change in found.config] == [("a", "changed"), ("b", "removed")]


def test_a_text_that_nobody_would_read_line_by_line_is_not_compared() -> None:
    found = compared_texts("a\n" * 2_000, "b\n")
    assert (found.change, found.lines, found.is_too_long) == ("changed", (), True)
    assert compared_texts(None, "new").lines == ("@@ -0,0 +1 @@", "+new")
    assert compared_texts(None, None).change == "same"


def tokenizer(tokens: list[str], special: list[str]) -> bytes:
    model = {"type": "BPE", "vocab": {token: number for number, token in enumerate(tokens)}, "merges": []}
    added = [{"id": 90 + n, "content": token, "special": True} for n, token in enumerate(special)]
    return json.dumps({"version": "1.0", "model": model, "added_tokens": added}).encode()


def test_tokenizer_card_and_figures_of_two_versions_are_compared(library, ada, actor, model) -> None:
    first = b.model_files() | {
        "tokenizer.json": tokenizer(["a", "b"], ["<s>"]),
        "tokenizer_config.json": json.dumps({"bos_token": {"content": "<s>"}}).encode(),
    }
    second = b.model_files(b"\x02") | {
        "tokenizer.json": tokenizer(["a", "b", "<tool>"], ["<tool>"]),
        "tokenizer_config.json": b'{"eos_token": "<tool>", "chat_template": "{{ messages }}"}',
        "README.md": b"---\nlicense: apache-2.0\n---\n# A <b>better</b> model\n",
    }
    for number, files in enumerate((first, second)):
        source = b.write(library.root / f"run{number}", files)
        version = imports.import_version(actor=actor, model=model, source=str(source))
        library.settle()
        measured = evaluations.FigureInput("accuracy", 0.5 + number / 4, is_higher_better=True)
        version.refresh_from_db()
        evaluations.evaluate_version(actor=actor, version=version, figures=[measured])
    found = cast.api(ada).get("models/tiny/versions/v1/compare/v2/").json()
    told = found["tokenizer"]
    assert (told["change"], told["chat_template"]) == ("changed", "added")
    assert (told["before"]["kind"], told["before"]["vocabulary"], told["after"]["vocabulary"]) == (
        "BPE",
        3,
        3,
    )
    assert (told["special_added"], told["special_removed"]) == (["<tool>"], ["<s>"])
    assert (told["before"]["roles"], told["after"]["roles"]) == (
        {"bos_token": "<s>"},
        {"eos_token": "<tool>"},
    )
    assert found["card"]["lines"][-2:] == ["-# A small model", "+# A <b>better</b> model"]
    (figure,) = found["figures"]
    assert (figure["name"], figure["difference"], figure["better"]) == ("accuracy", 0.25, True)
    browser = Client()
    browser.force_login(ada)
    page = browser.get("/models/tiny/+compare/?before=v1&after=v2").content.decode()
    assert "+# A &lt;b&gt;better&lt;/b&gt; model" in page
    assert "+0.25" in page
    assert "&lt;tool&gt;" in page


@pytest.mark.parametrize(
    ("sizes", "shown_as"),
    [((1_234_567, 1_234_568), "exact"), ((1_234_567, 2_234_567), "bytes"), ((5, 5), "bytes")],
)
def test_sizes_that_would_look_the_same_are_shown_to_the_byte(sizes: tuple[int, int], shown_as: str) -> None:
    label, *_values, how = _facts(*(Version(size_bytes=size) for size in sizes))[0]

    assert (label, how) == ("Size", shown_as)
