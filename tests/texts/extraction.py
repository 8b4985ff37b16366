"""The strings of the code that people read, as catalogues of what is to be translated.

Babel reads Python and JavaScript; templates are read here with Django's own lexer: no system's gettext is
needed.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from babel.messages.catalog import Catalog
from babel.messages.extract import extract
from django.conf import settings
from django.template.base import Lexer, TokenType
from django.utils.translation import trim_whitespace

from controlplane.installed import APPS

ROOMS = ("common", "controlplane", "serving/engines/specs", *APPS)
PROJECT = Path(settings.BASE_DIR)
PYTHON_KEYWORDS: dict[str, Any] = {
    "_": None,
    "gettext": None,
    "gettext_lazy": None,
    "gettext_noop": None,
    "ngettext": (1, 2),
    "ngettext_lazy": (1, 2),
    "pgettext": ((1, "c"), 2),
    "pgettext_lazy": ((1, "c"), 2),
}
SCRIPT_KEYWORDS: dict[str, Any] = {"gettext": None, "ngettext": (1, 2), "pgettext": ((1, "c"), 2)}
_LITERAL = r"""(?:"([^"]*)"|'([^']*)')"""
_TRANSLATE = re.compile(rf"trans(?:late)?\s+{_LITERAL}")
_CONTEXT = re.compile(rf"\bcontext\s+{_LITERAL}")
_CONSTANT = re.compile(rf"(?<![\w.])_\({_LITERAL}\)")


@dataclass(frozen=True)
class Text:
    path: str
    line: int
    singular: str
    plural: str = ""
    context: str | None = None


def catalogue(domain: str) -> Catalog:
    """Every text of `django` (Python and templates) or `djangojs`, without translations."""
    found = Catalog(domain=domain, project="Slipway", charset="utf-8")
    for text in scripts() if domain == "djangojs" else (*python(), *templates()):
        name = (text.singular, text.plural) if text.plural else text.singular
        found.add(name, locations=[(text.path, text.line)], context=text.context)
    return found


def python_files() -> list[Path]:
    return sorted(
        path
        for room in ROOMS
        for path in (PROJECT / room).rglob("*.py")
        if "migrations" not in path.parts and "__pycache__" not in path.parts
    )


def template_files() -> list[Path]:
    return sorted((PROJECT / "templates").rglob("*.html"))


def script_files() -> list[Path]:
    return sorted((PROJECT / "static/js").glob("*.js"))


def python() -> Iterator[Text]:
    for path in python_files():
        yield from _by_babel(path, "python", PYTHON_KEYWORDS)


def scripts() -> Iterator[Text]:
    for path in script_files():
        yield from _by_babel(path, "javascript", SCRIPT_KEYWORDS)


def _by_babel(path: Path, method: str, keywords: dict[str, Any]) -> Iterator[Text]:
    with path.open("rb") as file:
        for line, messages, _, context in extract(method, file, keywords):
            forms = messages if isinstance(messages, tuple) else (messages,)
            yield Text(named(path), line, forms[0], forms[1] if len(forms) > 1 else "", context)


def templates() -> Iterator[Text]:
    for path in template_files():
        yield from of_template(path.read_text(), named(path))


def of_template(source: str, name: str) -> Iterator[Text]:
    tokens = iter(Lexer(source).tokenize())
    for token in tokens:
        if token.token_type not in (TokenType.BLOCK, TokenType.VAR):
            continue
        content = token.contents
        for match in _CONSTANT.finditer(content):
            yield Text(name, token.lineno, _literal(match))
        tag = content.split(None, 1)[0] if content else ""
        if token.token_type is not TokenType.BLOCK:
            continue
        if tag in ("trans", "translate") and (match := _TRANSLATE.match(content)):
            context = _CONTEXT.search(content)
            yield Text(name, token.lineno, _literal(match), context=_literal(context) if context else None)
        elif tag in ("blocktrans", "blocktranslate"):
            yield _block(name, token.lineno, content, tokens)


def _block(name: str, line: int, content: str, tokens: Iterator[Any]) -> Text:
    forms = [""]
    for token in tokens:
        if token.token_type is TokenType.TEXT:
            forms[-1] += token.contents.replace("%", "%%")
        elif token.token_type is TokenType.VAR:
            forms[-1] += f"%({token.contents})s"
        elif token.token_type is TokenType.BLOCK:
            if token.contents.startswith("end"):
                break
            forms.append("")
    if re.search(r"\btrimmed\b", content):
        forms = [trim_whitespace(form) for form in forms]
    context = _CONTEXT.search(content)
    return Text(
        name,
        line,
        forms[0],
        forms[1] if len(forms) > 1 else "",
        context=_literal(context) if context else None,
    )


def _literal(match: re.Match[str]) -> str:
    # Django doubles the sign too when it looks a constant up.
    return next(text for text in match.groups() if text is not None).replace("%", "%%")


def named(path: Path) -> str:
    return path.relative_to(PROJECT).as_posix()
