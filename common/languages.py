"""The console's languages: compiled catalogues, and what the browser needs of them (docs/adr/0021)."""

import json
from functools import lru_cache
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING

from django.conf import settings
from django.utils.translation import get_language
from django.utils.translation.trans_real import DjangoTranslation

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

    Text = StrOrPromise
else:
    Text = str
"""What may be translated only when it is shown (`gettext_lazy`)."""

SOURCE = "en"
"""The language that the strings in the code are written in: it has no catalogue."""


def compile_catalogues(target: Path) -> None:
    """Compile every `.po` of the project's `locale/` into `target`, unless what lies there is newer.

    Whoever reads meanwhile finds the old file or the new one.
    """
    # Here, since only a preparation needs them.
    from babel.messages.mofile import write_mo
    from babel.messages.pofile import read_po

    for source in sorted(settings.SLIPWAY_CATALOGUES.glob("*/LC_MESSAGES/*.po")):
        compiled = target / source.relative_to(settings.SLIPWAY_CATALOGUES).with_suffix(".mo")
        if compiled.exists() and compiled.stat().st_mtime_ns >= source.stat().st_mtime_ns:
            continue
        with source.open("rb") as file:
            catalogue = read_po(file, locale=source.parent.parent.name, abort_invalid=True)
        compiled.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=compiled.parent, delete=False) as fresh:
            write_mo(fresh, catalogue)
        Path(fresh.name).replace(compiled)


@lru_cache(maxsize=8)
def browser_texts(language: str) -> str:
    """Return the texts of the modules in `static/js`, as JSON: `{source: translation or [plural forms]}`."""
    if language == SOURCE:
        return ""
    texts: dict[str, object] = {}
    for key, text in DjangoTranslation(language, domain="djangojs")._catalog.items():  # type: ignore[attr-defined]
        if isinstance(key, tuple):
            # One form for all numbers is all that the present languages have.
            texts[key[0]] = [text]
        elif key:
            texts[key] = text
    return json.dumps(texts, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def language() -> str:
    """The code of the language that texts are written in now: `en`, `zh-hans`."""
    return get_language() or SOURCE
