"""Text: UTF-8 without NULs; JSON that parses, of bounded size and depth."""

import codecs
import json
from typing import Any

import orjson

from model_store.reading import Content, ContentTooLarge, MalformedContent

CHUNK = 1024 * 1024
MAX_TEXT_BYTES = 1024 * 1024 * 1024
MAX_JSON_BYTES = 64 * 1024 * 1024
MAX_JSON_DEPTH = 100
MAX_DIGITS = 1_000
"""Of an integer."""


def check(content: Content) -> None:
    """Malformed unless every byte is UTF-8 text."""
    if content.size > MAX_TEXT_BYTES:
        raise ContentTooLarge(f"it has {content.size:,} bytes; text may have at most {MAX_TEXT_BYTES:,}")
    decoder = codecs.getincrementaldecoder("utf-8")()
    for offset in range(0, content.size, CHUNK):
        chunk = content.read_at(offset, CHUNK)
        if b"\x00" in chunk:
            raise MalformedContent("it holds NUL bytes")
        try:
            decoder.decode(chunk, final=offset + CHUNK >= content.size)
        except UnicodeDecodeError:
            raise MalformedContent("it is not UTF-8") from None


def parse_json(content: Content) -> Any:
    """The value of a JSON file; else Malformed. NaN and Infinity pass: Python writes them into configs."""
    check_json_size(content)
    data = content.read_at(0, content.size).removeprefix(codecs.BOM_UTF8)
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        try:
            value = json.loads(data, parse_int=_integer)
        except RecursionError:
            raise MalformedContent("it is nested too deeply") from None
        except ValueError as error:
            raise MalformedContent(str(error)[:120]) from None
    check_depth(value)
    return value


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise MalformedContent(f"it holds a number of {len(digits):,} digits; {MAX_DIGITS:,} are allowed")
    return int(digits)


def check_json_size(content: Content) -> None:
    if content.size > MAX_JSON_BYTES:
        raise ContentTooLarge(
            f"it has {content.size:,} bytes; a JSON file may have at most {MAX_JSON_BYTES:,}"
        )


def check_depth(value: Any) -> None:
    level = [value]
    for _ in range(MAX_JSON_DEPTH):
        level = [
            child
            for item in level
            if isinstance(item, dict | list)
            for child in (item.values() if isinstance(item, dict) else item)
            if isinstance(child, dict | list)
        ]
        if not level:
            return
    raise MalformedContent(f"it is nested deeper than {MAX_JSON_DEPTH} levels")
