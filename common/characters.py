"""Characters of texts on their way into rows and onto pages.

Characters that nobody sees, or that turn the order of others round, make one text look like another (Unicode
TR 36, https://www.unicode.org/reports/tr36/): names do not have them, and pages show them as `[U+202E]`.
"""

import re
import unicodedata

HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
_FILLERS = "\u115f\u1160\u3164\uffa0"
"""Letters by their category, blank to the eye."""
_JOINERS = "\u200c\u200d"
_ZERO_WIDTH_BIDI_AND_TAGS = (
    "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ufeff\uffa0\ufff9-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e007f"
)
_FLAG = "\U0001f3f4[\U000e0020-\U000e007e]{2,6}\U000e007f"
"""A flag of a region, such as Wales: an emoji whose tags are part of it."""
_HIDDEN = re.compile(f"[{_ZERO_WIDTH_BIDI_AND_TAGS}]")
_MARKED = re.compile(f"({_FLAG})|([{_ZERO_WIDTH_BIDI_AND_TAGS}])")
_PLAIN = bytes([*b"\t\n\r", *range(0x20, 0x7F)])


def storable(text: str) -> str:
    """Return foreign text as every database keeps it: without zero bytes and halves of surrogate pairs."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def marked(text: str) -> str:
    """Return the text with hidden characters made visible, as `[U+202E]`.

    Joiners stay, which Persian, the scripts of India and emoji are written with; so do soft hyphens.
    """
    # Without what is plainly visible a page is short: searching all of it takes ten times as long.
    if not _HIDDEN.search(text.encode("utf-8", "replace").translate(None, _PLAIN).decode()):
        return text
    return _MARKED.sub(lambda found: found[1] or f"[{_code(found[2])}]", text)


def hidden(name: str) -> list[str]:
    """The characters, as `U+202E`, that a name must not have; joiners only where a script needs them."""
    at_fault = (
        character
        for place, character in enumerate(name)
        if (unicodedata.category(character) in HIDDEN_CATEGORIES or character in _FILLERS)
        and not (character in _JOINERS and _joins(name, place))
    )
    return [_code(character) for character in dict.fromkeys(at_fault)]


def without_hidden(name: str) -> str:
    """A name that others gave, such as an identity provider, as `visible_name` takes it."""
    return "".join(character for character in name if not hidden(character))


def _joins(text: str, place: int) -> bool:
    """After a virama, between Arabic letters, or within an emoji (as RFC 5892, A.1 and A.2)."""
    before, after = text[place - 1 : place], text[place + 1 : place + 2]
    if not before:
        return False
    if unicodedata.combining(before) == 9:
        return True
    if not after:
        return False
    if unicodedata.bidirectional(before) == unicodedata.bidirectional(after) == "AL":
        return True
    is_emoji = before == "\ufe0f" or unicodedata.category(before) in ("So", "Sk")
    return is_emoji and unicodedata.category(after) == "So"


def _code(character: str) -> str:
    return f"U+{ord(character):04X}"
