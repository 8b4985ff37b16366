"""What lists of the registry show in each row, drawn here: a template for each takes longer than the row."""

from collections.abc import Mapping, Sequence
from typing import Any

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from common.pages import icons

register = template.Library()

NOTHING = mark_safe('<span class="text-quiet">–</span>')


@register.simple_tag
def scan(found: Mapping[str, Any]) -> SafeString:
    """`{% scan version.scan %}`: what the judgement of its files found."""
    verdict = found.get("verdict", "")
    if verdict == "passed":
        words = [_("passed"), *([_("with code")] if found.get("code") else [])]
        if warnings := len(found.get("warnings", ())):
            words.append(ngettext("%(count)s warning", "%(count)s warnings", warnings) % {"count": warnings})
        if notes := len(found.get("notes", ())):
            words.append(ngettext("%(count)s note", "%(count)s notes", notes) % {"count": notes})
        return format_html(
            '<span class="state tone-{}" title="{}">{}<span>{}</span></span>',
            "good" if len(words) == 1 else "warn",
            " ".join(map(str, found.get("notes", ()))),
            icons.icon("shield-check"),
            ", ".join(words),
        )
    if verdict == "refused":
        return format_html(
            '<span class="state tone-bad">{}<span>{}</span></span>', icons.icon("shield-x"), _("refused")
        )
    return format_html('<span class="text-quiet">{}</span>', verdict) if verdict else NOTHING


@register.simple_tag
def served(uses: Sequence[str]) -> SafeString:
    """`{% served card.served %}`: the first use, and how many more there are; all of them as its title."""
    if not uses:
        return NOTHING
    title = ", ".join(uses)
    first = format_html('<span class="served" title="{}">{}</span>', title, uses[0])
    if len(uses) == 1:
        return first
    return format_html(
        '{} <span class="text-quiet" title="{}">{}</span>',
        first,
        title,
        _("and %(count)s more") % {"count": len(uses) - 1},
    )
