"""Tabler's icons, inlined: they take the text's colour and cost no request."""

import re
from functools import lru_cache
from pathlib import Path

from django.conf import settings
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

_BODY = re.compile(r"<svg[^>]*>(.*)</svg>", re.DOTALL)
_BACKDROP = re.compile(r'<path stroke="none" d="M0 0h24v24H0z" fill="none"\s*/>')
_NAME = re.compile(r"[a-z0-9-]+")


class UnknownIcon(LookupError):
    """The icon set has no such icon; the name is in the message."""


def _folder() -> Path:
    return Path(settings.BASE_DIR) / "node_modules/@tabler/icons/icons"


def _drawing(name: str, style: str) -> SafeString:
    file = _folder() / style / f"{name}.svg"
    if not _NAME.fullmatch(name) or not file.is_file():
        if not _folder().is_dir():
            return SafeString("")  # The console stays usable, without pictures, where npm has not run yet.
        raise UnknownIcon(f"There is no {style} icon named {name!r} in @tabler/icons.")
    found = _BODY.search(file.read_text(encoding="utf-8"))
    if found is None:
        raise UnknownIcon(f"{file.name} of @tabler/icons holds no drawing.")
    drawing = " ".join(_BACKDROP.sub("", found[1]).split())
    return mark_safe(drawing)  # noqa: S308 (a pinned file of the icon package, not input)


@lru_cache(maxsize=1024)
def icon(name: str, *, size: int = 16, css: str = "", filled: bool = False) -> SafeString:
    """The icon as `<svg>`, `size` pixels square, hidden from screen readers: the word beside it speaks.

    Raises UnknownIcon for a name that the set does not hold.
    """
    drawing = _drawing(name, "filled" if filled else "outline")
    paint = (
        SafeString('fill="currentColor"')
        if filled
        else SafeString('fill="none" stroke="currentColor" stroke-linecap="round" stroke-linejoin="round"')
    )
    return format_html(
        '<svg class="glyph{}" width="{}" height="{}" viewBox="0 0 24 24" {} aria-hidden="true">{}</svg>',
        f" {css}" if css else "",
        size,
        size,
        paint,
        drawing,
    )
