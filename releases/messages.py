"""What the rows of a release say: kinds of sentences and their values, told in each reader's language.

A row has many readers. It keeps the English text, which REST, the CLI and the audit record show, and beside
it the kinds and values that pages tell anew. What a person or another room wrote has no kind, and stays as it
is.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from django.utils import translation

from common.sentences import joined

Format = Callable[[Any], Any]
"""From a value as it is kept, plain JSON, to what stands in the sentence, in the language of the moment."""
Document = list[dict[str, Any]]
"""`[{"kind": "deploy.ready", "values": {"ready": 2, "seconds": 14}}]`"""

KINDS: dict[str, "MessageTemplate"] = {}
"""Every kind by its name."""


class MessageTemplate:
    """A sentence with values: `MessageTemplate("deploy.ready", _("%(ready)s ready."), ready=count)`.

    Rows outlive releases of Slipway: a kind whose values change their meaning is a new one, under a new name.
    """

    def __init__(self, name: str, sentence: Any, /, **formats: Format) -> None:
        """`sentence` is lazy. Raises ValueError when there is a kind of this name."""
        if name in KINDS:
            raise ValueError(f"there are two kinds of sentence named {name}")
        self.name = name
        self.sentence = sentence
        self.formats = formats
        KINDS[name] = self

    def __call__(self, **values: Any) -> "ReleaseMessage":
        """Raises TypeError for other values than the sentence has."""
        return ReleaseMessage(
            ((self, self.checked({name: _plain(value) for name, value in values.items()})),)
        )

    def checked(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        if values.keys() != self.formats.keys():
            raise TypeError(f"{self.name} takes {sorted(self.formats)}, not {sorted(values)}")
        return values

    def told(self, values: Mapping[str, Any]) -> str:
        return str(self.sentence % {name: as_told(values[name]) for name, as_told in self.formats.items()})


@dataclass(frozen=True, slots=True)
class ReleaseMessage:
    """Sentences one after the other; `str` tells them in the reader's language. False: it says nothing."""

    sentences: tuple[tuple[MessageTemplate, Mapping[str, Any]], ...] = ()
    words: str = ""
    """Of a person, an engine or another room, where there are no sentences."""

    @classmethod
    def kept(cls, text: str, document: Document | None) -> Self:
        """Read it as a row keeps it. A kind that is not known here, or had other values, leaves the text."""
        try:
            found = tuple(
                (kind, kind.checked(one["values"])) for one in document or () for kind in [KINDS[one["kind"]]]
            )
        except (KeyError, TypeError):
            found = ()
        return cls(found, text)

    @property
    def text(self) -> str:
        """Return the text in English, for the row."""
        if not self.sentences:
            return self.words
        with translation.override("en"):
            return str(self)

    @property
    def document(self) -> Document | None:
        """JSON, for the row; None where there are words alone."""
        return [{"kind": kind.name, "values": dict(values)} for kind, values in self.sentences] or None

    def __str__(self) -> str:
        if not self.sentences:
            return self.words
        return joined(kind.told(values) for kind, values in self.sentences)

    def __bool__(self) -> bool:
        return bool(self.sentences or self.words)

    def __add__(self, other: "ReleaseMessage") -> "ReleaseMessage":
        """Both, one after the other; words among sentences become one."""
        if not (self and other):
            return self or other
        return ReleaseMessage((*self._as_sentences(), *other._as_sentences()))

    def _as_sentences(self) -> tuple[tuple[MessageTemplate, Mapping[str, Any]], ...]:
        return self.sentences or SAID(words=self.words).sentences


class _Count(int):
    """Chooses between singular and plural, and is written with commas."""

    def __str__(self) -> str:
        return f"{int(self):,}"


def text(value: str) -> str:
    """A name, or what somebody else wrote."""
    return value


def count(value: int) -> int:
    """`1,311`"""
    return _Count(value)


def number(value: float) -> str:
    """`0.5`, `30`"""
    return f"{value:g}"


def nested(value: Document | str) -> str:
    """A message within another one."""
    return value if isinstance(value, str) else str(ReleaseMessage.kept("", value))


def _plain(value: Any) -> Any:
    if isinstance(value, ReleaseMessage):
        return value.document or value.words
    return value if value is None or isinstance(value, int | float | list) else str(value)


SAID = MessageTemplate("said", "%(words)s", words=text)
"""What is not ours to tell anew."""
