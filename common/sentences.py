"""Sentences put beside each other, in the reader's language."""

from collections.abc import Callable, Iterable
from datetime import date

from django.conf import settings
from django.db.models import Model
from django.utils import translation
from django.utils.formats import date_format
from django.utils.translation import ngettext, pgettext


def joined(sentences: Iterable[str]) -> str:
    """Whole sentences one after the other; a full stop of full width has its space in it."""
    return "".join(one if one.endswith("。") else f"{one} " for one in sentences if one).rstrip()


def listed(items: Iterable[str]) -> str:
    return pgettext("between the items of a list", ", ").join(items)


def in_each_language(path: str, tell: Callable[[], str]) -> dict[str, str]:
    """Tell many readers at once, under `path.<language>`: each page follows the one of its language."""
    told = {}
    for code, _ in settings.LANGUAGES:
        with translation.override(code):
            told[f"{path}.{code}"] = tell()
    return told


def clauses(parts: Iterable[str]) -> str:
    """Clauses as one sentence."""
    told = pgettext("between the clauses of a sentence", "; ").join(parts)
    return pgettext("a sentence of clauses", "%(clauses)s.") % {"clauses": told}


def day(moment: date) -> str:
    return date_format(moment, pgettext("date format", "j M Y"))


def row_kind(row: Model) -> str:
    """Return the plural name of the row's kind: `models`."""
    names = row._meta
    return ngettext(str(names.verbose_name), str(names.verbose_name_plural), 2)
