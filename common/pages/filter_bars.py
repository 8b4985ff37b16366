"""The filter forms above lists.

A form of twelve fields takes nearly as long to draw as the rows below it, and is the same for nearly all who
open the list: it is drawn once for those who are offered the same and have chosen the same.
"""

from hashlib import sha256
from typing import Any

from django import forms
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.safestring import SafeString
from django_filters import FilterSet

from common import languages
from common.pages.listing import ListPage

MAX_KEPT = 4_000_000
"""Characters of all forms that are kept."""
MAX_CHOSEN = 500
"""Characters that were chosen in a form that is kept: others do not come again."""

_kept: dict[tuple[Any, ...], SafeString] = {}


def filter_bar(listing: ListPage[Any], filters: FilterSet) -> SafeString:
    chosen = tuple((name, *listing.query.getlist(name)) for name in filters.form.fields)
    offered = [_offered(field) for field in filters.form.fields.values()]
    key = (
        languages.language(),
        timezone.get_current_timezone_name(),
        type(filters),
        listing.part,
        chosen,
        sha256(repr(offered).encode()).digest(),
    )
    if (bar := _kept.get(key)) is None:
        bar = _drawn(listing, filters)
        if sum(len(text) for one in chosen for text in one) <= MAX_CHOSEN:
            if sum(map(len, _kept.values())) + len(bar) > MAX_KEPT:
                _kept.clear()
            _kept[key] = bar
    return bar


def _offered(field: forms.Field) -> tuple[tuple[str, str], ...]:
    offered = tuple((str(value), str(label)) for value, label in getattr(field, "choices", ()))
    if isinstance(field, forms.ModelChoiceField):
        # Read once: the widget would read them again.
        field.widget.choices = offered
    return offered


def _drawn(listing: ListPage[Any], filters: FilterSet) -> SafeString:
    rest_only = getattr(filters, "rest_only", ())
    fields = [field for field in filters.form.visible_fields() if field.name not in rest_only]
    further = getattr(filters, "further", ())
    context = {
        "listing": listing,
        "first": [field for field in fields if field.name not in further],
        "further": [field for field in fields if field.name in further],
        "is_open": any(listing.query.get(name) for name in further),
    }
    return render_to_string("components/filters.html", context)
