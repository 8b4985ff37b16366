"""The model card: a version's README.md, shown without trusting who wrote it."""

import re
from dataclasses import dataclass

import nh3
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from markdown_it import MarkdownIt

from model_store import blob_store
from model_store.errors import BlobMissing
from models_registry.errors import NoCard
from models_registry.facts.figures import Figure, figures_of_card
from models_registry.models import Version, VersionFile
from models_registry.states import WHOLE

MAX_BYTES = 262_144
MAX_VALUE = 200
MAX_VALUES = 20
_TAGS = {
    "a", "abbr", "b", "blockquote", "br", "code", "dd", "del", "details", "div", "dl", "dt", "em",
    "h1", "h2", "h3", "h4", "h5", "h6", "hr", "i", "kbd", "li", "ol", "p", "pre", "s", "span",
    "strong", "sub", "summary", "sup", "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip
_FRONT_MATTER = re.compile(r"\A---[ \t]*\r?\n(.*?)\r?\n---[ \t]*(?:\r?\n|\Z)", re.DOTALL)
_ENTRY = re.compile(r"([A-Za-z_][\w-]{0,60}):[ \t]*(.*)")
_ITEM = re.compile(r"[ \t]*-[ \t]+(.+)")
_SHOWN = ("license", "base_model", "language", "pipeline_tag", "library_name", "datasets", "tags")
_markdown = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])


@dataclass(frozen=True, slots=True)
class RenderedCard:
    facts: tuple[tuple[str, str], ...]
    """From its front matter, such as `("license", "apache-2.0")`."""
    html: SafeString
    is_cut: bool
    """Only the first 256 KiB are shown."""
    figures: tuple[Figure, ...] = ()
    """What it tells of evaluations."""


@dataclass(frozen=True, slots=True)
class CardSource:
    """A card as its author wrote it."""

    text: str
    is_cut: bool
    """As `RenderedCard.is_cut`."""
    facts: tuple[tuple[str, str], ...]
    """As `RenderedCard.facts`."""


def written_of(version: Version) -> CardSource:
    """Raises NoCard, BlobMissing when the store has lost it, StoreUnavailable."""
    if version.state not in WHOLE:
        raise NoCard(
            _("%(version)s is %(state)s: there is no model card to read.")
            % {"version": version, "state": version.get_state_display().lower()}
        )
    found = text_of(version)
    if found is None:
        raise NoCard(
            _("%(version)s has no model card: none of its files is named README.md.") % {"version": version}
        )
    text, is_cut = found
    front = _FRONT_MATTER.match(text)
    return CardSource(text, is_cut, _facts(front[1]) if front else ())


def license_of(text: str) -> str:
    """Return the licence that the front matter of a card names; empty: none."""
    front = _FRONT_MATTER.match(text)
    return dict(_facts(front[1])).get("license", "") if front else ""


def card_of(version: Version) -> RenderedCard | None:
    """Return the version's card, or None. Raises BlobMissing when the store has lost it."""
    found = text_of(version)
    return None if found is None else rendered(found[0], is_cut=found[1])


def text_of(version: Version) -> tuple[str, bool] | None:
    """The card as it was written, and whether it goes on; as `card_of`."""
    row = VersionFile.objects.filter(version=version, path__iexact="README.md").first()
    if row is None:
        return None
    try:
        with blob_store.store().opened(row.sha256) as content:
            text = content.read_at(0, MAX_BYTES).decode("utf-8", "replace")
    except OSError as error:
        raise BlobMissing(
            _("The store cannot read %(path)s: %(error)s.")
            % {"path": row.path, "error": error.strerror or error}
        ) from None
    return text, row.size > MAX_BYTES


def rendered(text: str, *, is_cut: bool = False) -> RenderedCard:
    """Markdown with what HTML it holds, reduced to text, tables and outward links: no script, no style, no
    picture (a card must not call home), no address of this server."""
    front = _FRONT_MATTER.match(text)
    body = text[front.end() :] if front else text
    html = nh3.clean(
        _markdown.render(body),
        tags=_TAGS,
        clean_content_tags={"script", "style", "svg", "math", "template", "iframe", "object"},
        attributes={"a": {"href"}, "th": {"align"}, "td": {"align"}, "ol": {"start"}},
        url_schemes={"http", "https", "mailto"},
        url_relative="deny",
        link_rel="noopener noreferrer nofollow",
    )
    # A wide table scrolls by itself, by keyboard too.
    opened = f'<div class="prose-table" tabindex="0" role="region" aria-label="{escape(_("Table"))}"><table>'
    html = html.replace("<table>", opened).replace("</table>", "</table></div>")
    facts, figures = (_facts(front[1]), figures_of_card(front[1])) if front else ((), ())
    return RenderedCard(facts, mark_safe(html), is_cut, figures)  # noqa: S308 (cleaned by nh3)


def _facts(front: str) -> tuple[tuple[str, str], ...]:
    """The keys that people ask for, out of YAML of which only scalars and lists of them are read."""
    found: dict[str, list[str]] = {}
    values: list[str] = []
    for line in front.splitlines():
        if entry := _ENTRY.fullmatch(line):
            values = found.setdefault(entry[1], [])
            values += [part for part in (_scalar(part) for part in _parts(entry[2])) if part]
        elif item := _ITEM.fullmatch(line):
            values.append(_scalar(item[1]))
    shown = ((key, [value for value in found.get(key, ()) if value][:MAX_VALUES]) for key in _SHOWN)
    return tuple((key.replace("_", " "), ", ".join(values)) for key, values in shown if values)


def _parts(text: str) -> list[str]:
    text = text.strip()
    return text[1:-1].split(",") if text.startswith("[") and text.endswith("]") else [text]


def _scalar(text: str) -> str:
    return text.strip().strip("\"'")[:MAX_VALUE]
