"""The text is English prose out of the standard library, the same on every run."""

import pytest

from controlplane.sample.corpus import Passage, _prose, passages

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def text() -> tuple[Passage, ...]:
    return passages()


@pytest.mark.parametrize(
    ("paragraph", "prose"),
    [
        (
            "Return a copy of the text\n    with every line indented.",
            "Return a copy of the text with every line indented.",
        ),
        (
            "The *with* statement wraps a block in ``methods``.",
            "The with statement wraps a block in methods.",
        ),
        (">>> print('a long enough line of code that is no prose.')", ""),
        ("usage: prog [-h] [--foo=FOO] {a,b} ... [--bar] [--baz N] x[3] = y(4).", ""),
        ("Too short.", ""),
        ("a heading that is long enough but does not end like a sentence", ""),
        ("the_name and another_name are words that are followed by other words.", ""),
    ],
)
def test_only_prose_is_kept(paragraph: str, prose: str) -> None:
    assert _prose(paragraph) == prose


def test_there_is_enough_of_it_and_none_twice(text: tuple[Passage, ...]) -> None:
    assert len(text) > 3_000
    assert len({passage.text for passage in text}) == len(text)
    assert sum(len(passage.text) for passage in text) > 500_000


def test_it_knows_what_a_passage_explains(text: tuple[Passage, ...]) -> None:
    found = next(passage for passage in text if passage.subject == "textwrap.dedent")
    assert found.first
    assert found.text.startswith("Remove any common leading whitespace")


@pytest.mark.slow
def test_it_is_read_in_the_same_order_again(text: tuple[Passage, ...]) -> None:
    assert passages() == text
