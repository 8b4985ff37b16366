"""The filter forms above lists.

A form of twelve fields takes nearly as long to draw as the rows below it, and is the same for nearly all who
open the list: it is drawn once for those who are offered the same and have chosen the same.
"""

from typing import Any

from django import forms
from django.template.loader import render_to_string
from django.utils.safestring import SafeString
from django_filters import FilterSet

from common.pages.listing import Listing

MAX_KEPT, MAX_CHARACTERS = 512, 500
"""So many forms are kept, if what was chosen in each is no longer than that."""

_kept: dict[tuple[Any, ...], SafeString] = {}


def filter_bar(listing: Listing[Any], filters: FilterSet) -> SafeString:
    chosen = tuple((name, *listing.query.getlist(name)) for name in filters.form.fields)
    offered = tuple(_offered(field) for field in filters.form.fields.values())
    key = (type(filters), listing.part, chosen, offered)
    if (bar := _kept.get(key)) is None:
        bar = _drawn(listing, filters)
        if sum(len(text) for one in chosen for text in one) <= MAX_CHARACTERS:
            if len(_kept) >= MAX_KEPT:
                _kept.clear()
            _kept[key] = bar
    return bar


def _offered(field: forms.Field) -> tuple[tuple[str, str], ...]:
    offered = tuple((str(value), str(label)) for value, label in getattr(field, "choices", ()))
    if isinstance(field, forms.ModelChoiceField):
        # Read once: the widget would read them again.
        field.widget.choices = offered
    return offered


def _drawn(listing: Listing[Any], filters: FilterSet) -> SafeString:
    fields = filters.form.visible_fields()
    further = getattr(filters, "further", ())
    context = {
        "listing": listing,
        "first": [field for field in fields if field.name not in further],
        "further": [field for field in fields if field.name in further],
        "is_open": any(listing.query.get(name) for name in further),
    }
    return render_to_string("components/filters.html", context)
