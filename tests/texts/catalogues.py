"""The catalogues in `locale/`: brought up to what the code says, and judged."""

import json
import re
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path

from babel.messages.catalog import Catalog, Message
from babel.messages.pofile import read_po, write_po
from django.conf import settings

from tests.texts import extraction

DOMAINS = ("django", "djangojs")
_PLACEHOLDER = re.compile(r"%\((\w+)\)[sd]|%%|\{\w+\}")
_FRAGMENT = re.compile(r"^[\s,;:.·)]|\s$")


def paths() -> Iterator[tuple[str, Path]]:
    for locale in sorted(settings.SLIPWAY_CATALOGUES.iterdir()):
        for domain in DOMAINS:
            yield domain, locale / "LC_MESSAGES" / f"{domain}.po"


def read(path: Path) -> Catalog:
    if not path.exists():
        return Catalog(locale=path.parent.parent.name, fuzzy=False)
    with path.open("rb") as file:
        return read_po(file, locale=path.parent.parent.name, abort_invalid=True)


def merged(domain: str, path: Path, translations: Mapping[str, str] | None = None) -> Catalog:
    """Return the code's texts as `path` translates them; `translations` (by source) come before that."""
    old, new = read(path), extraction.catalogue(domain)
    result = Catalog(
        locale=path.parent.parent.name, domain=domain, project="Slipway", charset="utf-8", fuzzy=False
    )
    result.header_comment = old.header_comment
    for message in sorted(new, key=_order):
        if not message.id:
            continue
        known = old.get(message.id, message.context)
        string = known.string if known else ""
        source = _source(message)
        if translations and source in translations:
            string = translations[source]
        if isinstance(message.id, tuple) and isinstance(string, str):
            # It had one form only.
            string = (string,) if string else ""
        result.add(
            message.id,
            string or ("",) * (result.num_plurals if isinstance(message.id, tuple) else 0) or "",
            locations=sorted({(path, 0) for path, _ in message.locations}),
            context=message.context,
        )
    return result


def _order(message: Message) -> tuple[str, str]:
    return (min((path for path, _ in message.locations), default=""), str(message.id))


def _source(message: Message) -> str:
    source = message.id[0] if isinstance(message.id, tuple) else message.id
    return f"{message.context}|{source}" if message.context else source


def written(catalogue: Catalog) -> bytes:
    file = BytesIO()
    write_po(file, catalogue, width=110, include_lineno=False, omit_header=False)
    # Dates would differ in every branch and say nothing.
    return re.sub(
        rb'"(POT-Creation-Date|PO-Revision-Date|Last-Translator|Language-Team|Generated-By):[^"]*"\n',
        b"",
        file.getvalue(),
    )


def update(translations: Mapping[str, str] | None = None) -> list[str]:
    """Write the catalogues as they have to be; the sources that lack a translation."""
    missing = []
    for domain, path in paths():
        result = merged(domain, path, translations)
        path.write_bytes(written(result))
        missing += [_source(message) for message in result if message.id and not _is_translated(message)]
    return missing


def faults() -> Iterator[str]:
    """Yield the faults of the catalogues, one sentence each."""
    for domain, path in paths():
        present, wanted = read(path), extraction.catalogue(domain)
        name = path.relative_to(settings.SLIPWAY_CATALOGUES)
        ids = {(message.id, message.context) for message in present if message.id}
        for message in wanted:
            if message.id and not message.context and is_part(_source(message)):
                place = message.locations[0][0]
                yield f"{place}: {_source(message)!r} is a part of a sentence: mark the whole"
            if message.id and (message.id, message.context) not in ids:
                yield f"{name}: lacks {_source(message)!r} of {message.locations[0][0]}"
        ids = {(message.id, message.context) for message in wanted}
        for message in present:
            if message.id:
                yield from (f"{name}: {fault}" for fault in _message_faults(message, ids))
        if present.obsolete:
            yield f"{name}: has {len(present.obsolete)} obsolete texts"


def is_part(text: str) -> bool:
    """Say whether a text is a part of a sentence: it begins or ends where none does."""
    return bool(_FRAGMENT.search(text))


def _message_faults(message: Message, wanted: set[tuple[object, str | None]]) -> Iterator[str]:
    source = _source(message)
    if (message.id, message.context) not in wanted:
        yield f"{source!r} is nowhere in the code"
    elif message.fuzzy:
        yield f"{source!r} is marked as fuzzy"
    elif not _is_translated(message):
        yield f"{source!r} is not translated"
    else:
        sources = message.id if isinstance(message.id, tuple) else (message.id,)
        allowed = {found.group() for text in sources for found in _PLACEHOLDER.finditer(text)}
        for text in message.string if isinstance(message.string, tuple) else (message.string,):
            has = {found.group() for found in _PLACEHOLDER.finditer(text)}
            if has != allowed and not (len(sources) > 1 and has <= allowed):
                yield f"{source!r} has the placeholders {sorted(allowed)}, its translation {sorted(has)}"


def _is_translated(message: Message) -> bool:
    return all(message.string) if isinstance(message.string, tuple) else bool(message.string)


def translations_of(path: Path) -> dict[str, str]:
    """`{source: translation}` as JSON, for a translator's bulk edit."""
    found: dict[str, str] = json.loads(path.read_text())
    return found
