"""What narrows a list, declared once: the parameters of REST, the fields of the page, and the query.

Each function makes one filter. `label` stands on the page, `says` in the schema; `by` is the path of a column
with its lookup, or makes a condition of the value.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any, ClassVar, TypeVar

import django_filters
from django import forms
from django.db.models import Q, QuerySet
from django.utils.translation import gettext_lazy as _
from drf_spectacular.utils import extend_schema_field

from common.languages import Text
from common.pages.forms import ChoiceSelect, MomentInput, SearchInput
from common.words import mentioning

MAX_TEXT = 200
EITHER = (("true", _("Yes")), ("false", _("No")))
_COUNT = re.compile(r"(\d{1,19}(?:\.\d{1,6})?) ?([kmbt]?)", re.ASCII | re.IGNORECASE)
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "t": 10**12}
_LARGEST = 2**63 - 1

By = str | Callable[[Any], Q]
Choices = Sequence[tuple[str, Text]]
F = TypeVar("F", bound=django_filters.Filter)


class ListFilter(django_filters.FilterSet):  # type: ignore[misc]
    further: ClassVar[tuple[str, ...]] = ()
    """What a page shows when it is asked for."""
    rest_only: ClassVar[tuple[str, ...]] = ()
    """What no page shows."""


def described(made: F, says: str, **schema: Any) -> F:
    """Add what the schema says of the filter: it cannot be told from one that takes every value."""
    told: F = extend_schema_field({"type": "string", "description": says, **schema})(made)
    return told


def search(
    says: str, placeholder: Text, by: Sequence[str] | Callable[[QuerySet[Any], str], QuerySet[Any]]
) -> django_filters.CharFilter:
    """The search box, `q`: every word occurs in one of the columns; or what `by` makes of rows and text."""

    def narrowed(rows: QuerySet[Any], _name: str, text: str) -> QuerySet[Any]:
        return by(rows, text) if callable(by) else mentioning(rows, text, by)

    made = django_filters.CharFilter(
        method=narrowed,
        label=_("Search"),
        max_length=MAX_TEXT,
        widget=SearchInput(placeholder),
    )
    return described(made, says, maxLength=MAX_TEXT)


def text(label: Text, says: str, by: By, placeholder: Text = "") -> django_filters.CharFilter:
    widget = SearchInput(placeholder)
    made = django_filters.CharFilter(method=_where(by), label=label, max_length=MAX_TEXT, widget=widget)
    return described(made, says, maxLength=MAX_TEXT)


def choice(label: Text, says: str, choices: Choices, by: By) -> django_filters.ChoiceFilter:
    made = django_filters.ChoiceFilter(
        method=_where(by), label=label, empty_label=_("Any"), choices=choices, widget=ChoiceSelect
    )
    return described(made, says, enum=[value for value, _label in choices])


def truth(label: Text, says: str, by: By, choices: Choices = EITHER) -> django_filters.ChoiceFilter:
    """True, false or either; `by` gets a bool."""
    where = _where(by)
    made = _TruthFilter(
        method=lambda rows, name, value: where(rows, name, value == "true"),
        label=label,
        empty_label=_("Any"),
        choices=choices,
        widget=ChoiceSelect,
    )
    return described(made, says, type="boolean")


def any_of(
    label: Text, says: str, choices: Choices, by: By, *, otherwise: Text
) -> django_filters.MultipleChoiceFilter:
    """Several values, each as a parameter of its own; `otherwise` is what a page calls none of them."""
    made = django_filters.MultipleChoiceFilter(
        method=_where(by), label=label, choices=choices, widget=AnyOf(otherwise=otherwise)
    )
    return described(made, says, enum=[value for value, _label in choices])


def named(
    label: Text,
    says: str,
    rows: Callable[[Any], QuerySet[Any]],
    by: By,
    *,
    unknown: Text,
    shared: Text | None = None,
) -> django_filters.ModelChoiceFilter:
    """Filter for one of the rows that `rows` finds for a request, by name; with `shared`, `null` for none."""
    made = django_filters.ModelChoiceFilter(
        method=_where(by) if shared is None else None,
        field_name=None if shared is None else by,
        to_field_name="name",
        queryset=rows,
        label=label,
        empty_label=_("Any"),
        null_label=shared,
        widget=ChoiceSelect,
        error_messages={"invalid_choice": unknown},
    )
    return described(made, says)


def moment(label: Text, says: str, by: By) -> django_filters.IsoDateTimeFilter:
    made = django_filters.IsoDateTimeFilter(
        method=_where(by),
        label=label,
        widget=MomentInput,
        error_messages={"invalid": _("Give a time such as 2026-03-03T14:00Z.")},
    )
    return described(made, says, format="date-time")


def count(label: Text, says: str, by: By) -> django_filters.Filter:
    """A number as people write it, `7B` or `7000000000`."""
    made = _CountFilter(method=_where(by), label=label, max_length=30, widget=SearchInput("7B"))
    says = f"{says}: a number, or one such as `7B`."  # untranslated
    return described(made, says, pattern=_COUNT.pattern)


def number(label: Text, says: str, by: By) -> django_filters.NumberFilter:
    """A whole number, such as an ID."""
    made = django_filters.NumberFilter(
        method=_where(by),
        label=label,
        decimal_places=0,
        min_value=0,
        max_value=2**31,
        widget=SearchInput("7"),
    )
    return described(made, says, type="integer")


class AnyOf(ChoiceSelect):
    """Offers one of several values, and takes as many of them as an address names."""

    def __init__(self, *, otherwise: Text) -> None:
        super().__init__()
        self.otherwise = otherwise

    def offered(self) -> Iterable[tuple[Any, Any]]:
        return [("", self.otherwise), *super().offered()]

    def value_from_datadict(self, data: Any, files: Any, name: str) -> list[str]:
        return [value for value in data.getlist(name) if value]


class _TruthField(django_filters.fields.ChoiceField):  # type: ignore[misc]
    def to_python(self, value: Any) -> str:
        return str(super().to_python(value)).lower()


class _TruthFilter(django_filters.ChoiceFilter):  # type: ignore[misc]
    field_class = _TruthField


class CountField(forms.CharField):
    def clean(self, value: Any) -> int | None:
        text = super().clean(value)
        if not text:
            return None
        found = _COUNT.fullmatch(text)
        count = int(Decimal(found[1]) * _UNITS[found[2].lower()]) if found else None
        if count is None or count > _LARGEST:
            raise forms.ValidationError(_("Give a number, such as 7000000000 or 7B."))
        return count


class _CountFilter(django_filters.Filter):  # type: ignore[misc]
    field_class = CountField


def _where(by: By) -> Callable[[QuerySet[Any], str, Any], QuerySet[Any]]:
    def narrowed(rows: QuerySet[Any], _name: str, value: Any) -> QuerySet[Any]:
        return rows.filter(by(value)) if callable(by) else rows.filter(**{by: value})

    return narrowed
