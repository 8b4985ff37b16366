"""Regular expressions that people give cannot keep a process busy."""

import time

import pytest

from common.patterns import BadPattern, compiled, hidden


def test_an_expression_that_backtracks_for_years_elsewhere_is_matched_at_once() -> None:
    began = time.process_time()
    assert compiled(r"(a+)+$").search("a" * 50_000 + "b") is None
    assert hidden(r"(\w*\w*)*x", "a" * 50_000, mark="-") == "a" * 50_000
    assert time.process_time() - began < 2


def test_finds_are_hidden_whatever_language_the_text_is_in() -> None:
    assert (
        hidden(r"[\w.+-]+@[\w.-]+|\d{6,}", "写信给 ada@example.org，1234567", mark="███") == "写信给 ███，███"
    )


@pytest.mark.parametrize("pattern", ["(", r"(?=a)b", r"(a)\1"])
def test_what_cannot_be_matched_in_linear_time_is_refused_with_the_reason(pattern: str) -> None:
    with pytest.raises(BadPattern, match="no regular expression of RE2"):
        compiled(pattern)
