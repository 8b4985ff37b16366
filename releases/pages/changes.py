"""What is different in a version, as lines that whoever decides reads in a minute."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop, ngettext

from common.pages import formats
from common.sentences import clauses, listed
from models_registry.facts.comparison import Change, VersionComparison
from models_registry.facts.figures import FigureChange
from models_registry.models import Version

KEYS_NAMED = 4
FIGURES_SHOWN = 8
FILES: Mapping[Change, str] = {
    "changed": gettext_noop("%(number)s changed (%(size)s)"),
    "added": gettext_noop("%(number)s added (%(size)s)"),
    "removed": gettext_noop("%(number)s removed (%(size)s)"),
}


class ChangeLine(NamedTuple):
    label: str
    says: str
    is_same: bool = False


def in_words(changes: VersionComparison) -> str:
    """`2 of 7 files changed (12.4 MB), 1 added; 3 config keys differ`"""
    keys = len(changes.config)
    config = (
        ngettext("%(count)s config key differs", "%(count)s config keys differ", keys) % {"count": keys}
        if keys
        else _("same config")
    )
    return clauses((_files(changes), config))


def change_lines(before: Version, after: Version, changes: VersionComparison) -> list[ChangeLine]:
    """Files, config, tokenizer, size, licence and the figures that both or one of them have."""
    return [*_lines(before, after, changes), *_figures(changes)]


def _lines(before: Version, after: Version, changes: VersionComparison) -> Iterator[ChangeLine]:
    yield ChangeLine(_("Files"), _files(changes), all(one.change == "same" for one in changes.files))
    keys = [one.key for one in changes.config]
    named = listed(keys[:KEYS_NAMED]) + (f" +{len(keys) - KEYS_NAMED}" if len(keys) > KEYS_NAMED else "")
    yield ChangeLine(_("Config"), named or _("same"), not keys)
    tokenizer = changes.tokenizer
    if tokenizer.before or tokenizer.after:
        told = _(CHANGED[tokenizer.change])
        if tokenizer.chat_template != "same":
            told = clauses(
                (told, _("chat template: %(change)s") % {"change": _(CHANGED[tokenizer.chat_template])})
            )
        yield ChangeLine(_("Tokenizer"), told, tokenizer.change == "same")
    sizes = [formats.byte_size(one.size_bytes) for one in (before, after)]
    yield ChangeLine(_("Size"), _arrow(*sizes), before.size_bytes == after.size_bytes)
    licences = [one or _("not stated") for one in changes.licenses]
    yield ChangeLine(_("Licence"), _arrow(*licences), licences[0] == licences[1])


CHANGED: Mapping[Change, str] = {
    "same": gettext_noop("same"),
    "changed": gettext_noop("changed"),
    "added": gettext_noop("added"),
    "removed": gettext_noop("removed"),
}


def _figures(changes: VersionComparison) -> Iterator[ChangeLine]:
    for one in changes.figures[:FIGURES_SHOWN]:
        name = one.either.name + (f" ({one.either.dataset})" if one.either.dataset else "")
        yield ChangeLine(name, _figure(one), one.difference == 0)


def _figure(one: FigureChange) -> str:
    values = [figure.text if figure else _("none") for figure in (one.before, one.after)]
    said = _arrow(*values)
    return f"{said} ({one.difference_text})" if one.difference else said


def _arrow(before: str, after: str) -> str:
    return after if before == after else f"{before} → {after}"


def _files(changes: VersionComparison) -> str:
    told = [
        _(words) % {"number": number, "size": formats.byte_size(changes.bytes_of(change))}
        for change, words in FILES.items()
        if (number := changes.count_of(change))
    ]
    total = {"total": len(changes.files), "told": listed(told)}
    return _("%(total)s files: %(told)s") % total if told else _("All %(total)s files are the same") % total
