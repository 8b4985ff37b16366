"""The console's components: `{% load slipway %}`. The page at `/styleguide/` shows all of them.

Small ones (icon, state, time, digest) are drawn here, because a list of 200 rows shows hundreds of
them; the larger ones are templates in `templates/components/`.
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from django import template
from django.conf import settings
from django.template import Context
from django.templatetags.static import static
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

from common import languages, request_id
from common.pages import badges, charts, formats, icons, nouns
from common.pages.filter_bars import filter_bar
from common.pages.listing import ListPage
from common.pages.steps import StepView

register = template.Library()

register.filter("bytes", formats.byte_size)
register.filter("memory", formats.memory_size)
register.filter("byte_rate", formats.byte_rate)
register.filter("rate", formats.rate)
register.filter("count", formats.count)
register.filter("percent", formats.percent)
register.filter("duration", formats.duration)
register.filter("span", formats.span)
register.filter("literal", formats.literal)


register.simple_tag(request_id.current, name="request_id")


@register.simple_tag
def icon(name: str, size: int = 16, css: str = "", filled: bool = False) -> SafeString:
    """`{% icon "rocket" %}`"""
    return icons.icon(name, size=size, css=css, filled=filled)


@register.simple_tag
def state(kind: str, value: str, pill: bool = False, title: str = "") -> SafeString:
    """`{% state "release" release.state %}`; `pill=True` beside a headline."""
    return _state(kind, str(value), pill, str(title), languages.language())


@lru_cache(maxsize=2048)
def _state(kind: str, value: str, pill: bool, title: str, language: str) -> SafeString:  # noqa: ARG001 (kept for each)
    drawn = badges.badge_of(kind, value)
    return format_html(
        '<span class="state{} tone-{}"{}>{}<span>{}</span></span>',
        " state-pill" if pill else "",
        drawn.tone,
        format_html(' title="{}"', title) if title else "",
        icons.icon(drawn.icon, css="turning" if drawn.icon in ("progress", "refresh") else ""),
        drawn.word,
    )


@register.simple_tag
def ago(moment: datetime | None, empty: str = formats.NO_VALUE) -> SafeString | str:
    """`{% ago release.created_at %}`: how long ago or until, kept up to date; the exact time as its title."""
    if moment is None:
        return empty
    told = formats.relative(moment, timezone.now())
    return _time(moment, f'title="{formats.absolute(moment)}" data-ago', told)


@register.simple_tag
def due(moment: datetime | None, empty: str = formats.NO_VALUE) -> SafeString | str:
    """`{% due source.due_at %}`: `next in 4 min`, `due now` once the moment has come; kept up to date."""
    if moment is None:
        return empty
    told = formats.due(moment, timezone.now())
    return _time(moment, f'title="{formats.absolute(moment)}" data-due', told)


@register.simple_tag
def at(moment: datetime | None, empty: str = formats.NO_VALUE) -> SafeString | str:
    """`{% at entry.at %}`: the exact time, in the reader's own time zone once the page runs."""
    if moment is None:
        return empty
    return _time(moment, "data-at", formats.absolute(moment))


@register.simple_tag
def elapsed(began: datetime | None, ended: datetime | None = None) -> SafeString | str:
    """`{% elapsed step.began_at step.ended_at %}`: how long, growing until there is an end."""
    if began is None:
        return formats.NO_VALUE
    if ended is not None:
        return formats.span(ended - began)
    so_far = timezone.now() - began
    return format_html(
        '<time class="num" datetime="{}" data-elapsed="{}">{}</time>',
        began.astimezone(UTC).isoformat(timespec="milliseconds"),
        round(so_far.total_seconds(), 2),
        formats.span(so_far),
    )


def _time(moment: datetime, attributes: str, told: str) -> SafeString:
    """Nothing in it is anybody's text; a list has one in every row."""
    exact = moment.astimezone(UTC).isoformat(timespec="seconds")
    return mark_safe(f'<time datetime="{exact}" {attributes}>{told}</time>')  # noqa: S308


@register.simple_tag
def digest(value: str, length: int = 12) -> SafeString | str:
    """`{% digest version.digest %}`: the first characters, the whole as title, a button that copies it."""
    if not value:
        return formats.NO_VALUE
    bare = value.removeprefix("sha256:")
    return format_html(
        '<span class="digest"><code title="{}">{}</code>'
        '<button type="button" class="copy" data-copy="{}" aria-label="{}">{}{}</button></span>',
        value,
        bare[:length],
        value,
        _("Copy %(digest)s") % {"digest": bare[:length]},
        icons.icon("copy", size=14, css="when-idle"),
        icons.icon("check", size=14, css="when-copied"),
    )


@register.inclusion_tag("components/empty.html")
def empty(title: str, text: str = "", icon: str = "inbox", url: str = "", action: str = "") -> dict[str, Any]:
    """`{% empty title="No releases yet" text="..." url=... action="Start one" %}`: says the next step."""
    return {"title": title, "text": text, "icon": icon, "url": url, "action": action}


@register.inclusion_tag("components/problem.html")
def problem(title: str, text: str = "", tone: str = "bad", log: str = "") -> dict[str, Any]:
    """`{% problem title=release.reason text=advice log=line %}`: what is wrong, where the eye is."""
    return {"title": title, "text": text, "tone": tone, "log": log}


@register.inclusion_tag("components/confirm.html", takes_context=True)
def confirm(
    context: Context,
    action: str,
    label: str,
    title: str,
    says: str,
    confirm: str = "",
    icon: str = "",
    tone: str = "bad",
    reason: str = "required",
    consequences: Sequence[str] = (),
    placeholder: str = "",
    cancel: str = "",
    css: str = "",
    fields: Any = None,
    fields_from: str = "",
    id: str = "",
    key: str = "",
) -> dict[str, Any]:
    """A button that first says what will happen and asks why, then posts to `action`.

    `{% confirm action=url label="Abort" title="Abort release 12?" says="All traffic returns ..." %}`
    `tone`: `bad` destroys, `good` and `plain` do not. `reason`: `required`, `optional` or `none`.
    `fields`: a bound form whose fields stand above the reason; `fields_from`: the address that they come from
    when the dialog is opened. `key` presses the button from anywhere on the page. The view answers with
    `answers.done` or `answers.refused`.

    Two of one page differ in `action`, `label` or `title`, or have an `id` each. It is the same whenever the
    page is drawn: the button that a refresh replaces keeps the focus.
    """
    return {
        "id": id or f"ask-{sha256('|'.join(map(str, (action, label, title))).encode()).hexdigest()[:12]}",
        "action": action,
        "label": label,
        "title": title,
        "says": says,
        "confirm": confirm or label,
        "icon": icon,
        "tone": tone,
        "reason": reason,
        "consequences": consequences,
        "placeholder": placeholder,
        "cancel": cancel or _("Cancel"),
        "css": css,
        "fields": fields,
        "fields_from": fields_from,
        "key": key,
        "csrf_token": context.get("csrf_token", ""),
    }


@register.inclusion_tag("components/sort.html")
def sort(
    listing: ListPage[Any], key: str, label: str, number: bool = False, descending: bool = False
) -> dict[str, Any]:
    """`{% sort listing "created" "Created" descending=True %}`: a `<th>` that sorts.

    `number` aligns it to the right; `descending` is the order of the first click.
    """
    return {
        "label": label,
        "number": number,
        "order": listing.sorted_by(key),
        "url": listing.sort_url(key, descending_first=descending),
        "part": listing.part,
    }


@register.simple_tag
def filters(listing: ListPage[Any]) -> SafeString | str:
    """`{% filters listing %}`: the filter form of a listing; it answers as one types, and changes the URL.

    What the filters name as `further` is folded away until somebody asks for it.
    """
    return filter_bar(listing, listing.filters) if listing.filters else ""


@register.inclusion_tag("components/faults.html")
def faults(listing: ListPage[Any]) -> dict[str, Any]:
    """`{% faults listing %}`: which filters make no sense and are left out. Stands in the listing's part."""
    found = list(listing.faults)
    if listing.filters is not None:
        form = listing.filters.form
        found += [(form.fields[name].label, text) for name, told in form.errors.items() for text in told]
    return {"faults": found}


@register.inclusion_tag("components/pages.html")
def pages(listing: ListPage[Any], noun: str = "rows") -> dict[str, Any]:
    """`{% pages listing noun="models" %}`: which rows these are, and the pages before and after.

    Stands inside the listing's part, so that the sort and "Clear filters" follow what is shown.
    """
    counted = nouns.noun(noun)
    return {"listing": listing, "noun": counted(0), "one": counted(1)}


@register.inclusion_tag("components/tab.html", takes_context=True)
def tab(context: Context, url: str, label: str, icon: str = "", number: int | None = None) -> dict[str, Any]:
    """`<nav class="tabs" aria-label="...">{% tab url "Versions" number=12 %}</nav>`; current by its URL."""
    request = context["request"]
    path = request.get_full_path() if "?" in url else request.path
    return {"url": url, "label": label, "icon": icon, "number": number, "current": path == url}


@register.inclusion_tag("components/chart.html")
def chart(chart: charts.Chart, id: str, size: str = "m") -> dict[str, Any]:
    """`{% chart chart id="ttft" size="m" %}`: a `charts.Chart` with legend, limits and its table in words.

    `size`: `s`, `m` or `l`, 120, 200 or 320 pixels high.
    """
    return {"chart": chart, "id": id, "size": size, "data_id": f"{id}-data"}


@register.inclusion_tag("components/steps.html")
def steps(steps: Sequence[StepView], is_plan: bool = False) -> dict[str, Any]:
    """`{% steps release_steps %}`: the plan as a strip, the current step outlined.

    `is_plan`: nothing follows it yet, so its steps have no state.
    """
    return {"steps": steps, "is_plan": is_plan}


@register.inclusion_tag("components/log.html")
def log(lines: Sequence[Any], label: str = "Log", follow: bool = True) -> dict[str, Any]:
    """`{% log lines label="Worker 3" %}`: lines with `.at`, `.level` and `.text`, newest last."""
    return {"lines": lines, "label": label, "follow": follow}


@lru_cache(maxsize=1)
def _modules() -> SafeString:
    """Name in `import` statements to the address of the static file, as JSON."""
    own = sorted((Path(settings.BASE_DIR) / "static/js").glob("*.js"))
    modules = {f"slipway/{file.stem}": f"js/{file.name}" for file in own if file.stem != "theme"}
    modules["uplot"] = "vendor/uplot/uPlot.esm.js"
    imports = {name: static(path) for name, path in modules.items()}
    body = json.dumps({"imports": imports}, separators=(",", ":")).replace("<", "\\u003c")
    return mark_safe(body)  # noqa: S308 (JSON of our own file names, with < escaped)


@register.simple_tag(takes_context=True)
def importmap(context: Context) -> SafeString:
    """Tell the browser where our modules are, under their current, hashed names."""
    nonce = getattr(context.get("request"), "csp_nonce", "")
    return format_html('<script type="importmap" nonce="{}">{}</script>', nonce, _modules())


@register.simple_tag
def page_language() -> str:
    """`<html lang="{% page_language %}">`"""
    return languages.language()


@register.simple_tag(takes_context=True)
def time_zone(context: Context) -> str:
    """The name of the zone in the person's settings; empty: the browser's."""
    return getattr(context.get("request"), "time_zone", "")


@register.simple_tag
def texts() -> SafeString | str:
    """Return the modules' texts in the page's language, for `slipway/texts`."""
    told = languages.browser_texts(languages.language())
    # JSON of the catalogue, with < escaped; data, which the Content-Security-Policy lets through.
    return mark_safe(f'<script type="application/json" id="texts">{told}</script>') if told else ""  # noqa: S308
