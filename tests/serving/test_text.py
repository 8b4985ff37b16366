"""Text is shown in whole characters and never from a stop string on."""

from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from serving.openai import Message
from serving.text import StopWindow, Unrolling, plain_chat

words = st.text("ab\n", max_size=30)
stops = st.lists(st.text("ab\n", min_size=1, max_size=4), max_size=3)


def bytes_to_text(ids: list[int]) -> str:
    return bytes(ids).decode("utf-8", errors="replace")


def cut(text: str, places: list[int]) -> list[str]:
    edges = sorted({place % (len(text) + 1) for place in places} | {0, len(text)})
    return [text[a:b] for a, b in pairwise(edges)]


def until_stop(text: str, stop_strings: list[str]) -> tuple[str, bool]:
    """Follow the definition: read character by character until one of the strings is complete."""
    for end in range(1, len(text) + 1):
        done = [stop for stop in stop_strings if text[:end].endswith(stop)]
        if done:
            return text[: end - max(map(len, done))], True
    return text, False


@given(words, stops, st.lists(st.integers(0, 30)))
@example("ab\n", ["ab\n", "b"], [])
def test_pieces_stop_where_the_whole_text_does(text: str, stop_strings: list[str], places: list[int]) -> None:
    window = StopWindow(stop_strings)
    shown = "".join(window.feed(piece) for piece in cut(text, places))
    shown += window.flush()
    assert (shown, window.stopped) == until_stop(text, stop_strings)


def test_text_that_cannot_begin_a_stop_string_is_not_withheld() -> None:
    window = StopWindow(["\nUser:"])
    assert [window.feed(piece) for piece in ("Hello", " there\n", "Us", "ed")] == [
        "Hello",
        " there",
        "",
        "\nUsed",
    ]


@given(st.text(max_size=40))
def test_tokens_unroll_to_the_text_they_were_made_of(text: str) -> None:
    unrolling = Unrolling(bytes_to_text)
    deltas = [unrolling.feed(byte) for byte in text.encode()]
    assert "".join(deltas) + unrolling.flush() == text
    assert all("�" not in delta for delta in deltas) or "�" in text


@given(st.lists(st.integers(0, 255), max_size=40))
def test_any_bytes_unroll_to_what_they_decode_to(ids: list[int]) -> None:
    unrolling = Unrolling(bytes_to_text)
    shown = "".join(unrolling.feed(byte) for byte in ids) + unrolling.flush()
    decoded = bytes_to_text(ids)
    assert shown.replace("�", "") == decoded.replace("�", "")


def test_a_tokenizer_that_joins_words_with_spaces_keeps_them() -> None:
    vocabulary = ["one", "two", "three"]
    unrolling = Unrolling(lambda ids: " ".join(vocabulary[token] for token in ids))
    assert [unrolling.feed(token) for token in (0, 1, 2)] == ["one", " two", " three"]


def test_a_chat_without_a_template_is_written_as_paragraphs() -> None:
    messages = [Message("developer", "Be brief."), Message("user", "Hi"), Message("assistant", "Yes?")]
    assert plain_chat(messages) == "System: Be brief.\n\nUser: Hi\n\nAssistant: Yes?\n\nAssistant:"
