"""What narrows a list over REST says what it takes."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, cast

import django_filters
from django import forms
from django.db.models import QuerySet
from django.utils.translation import gettext as _
from django_filters.rest_framework import DjangoFilterBackend
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.views import APIView

MAX_NAMED = 30


class FilterBackend(DjangoFilterBackend):  # type: ignore[misc]
    """Names the values that a filter has when it is given another one."""

    def get_filterset(self, request: Request, queryset: QuerySet[Any], view: APIView) -> Any:
        whole = self.get_filterset_class(view, queryset)
        if whole is None:
            return None
        made = _narrowed(whole, frozenset(request.query_params))
        filterset = made(**self.get_filterset_kwargs(request, queryset, view))
        for name, field in filterset.form.fields.items():
            # Django takes whatever it does not know for "not given".
            if isinstance(field, forms.NullBooleanField) and not _is_truth_value(request, name):
                raise ValidationError({name: [_("Give one of: true, false.")]})
            # Rows are no fixed values: there may be thousands, and not all for everybody's eyes.
            if isinstance(field, forms.ChoiceField) and not isinstance(field, forms.ModelChoiceField):
                field.error_messages["invalid_choice"] = _choose_one_of(field)
        return filterset


@lru_cache(maxsize=512)
def _narrowed(whole: type[django_filters.FilterSet], given: frozenset[str]) -> type[django_filters.FilterSet]:
    """The filters that a request gives, without the others: each of them is copied, with its field."""
    filters = {
        name: one for name, one in whole.base_filters.items() if name in given or one.extra.get("required")
    }
    narrowed: type[django_filters.FilterSet] = type(whole.__name__, (whole,), {})
    narrowed.base_filters = filters
    return narrowed


def _is_truth_value(request: Request, name: str) -> bool:
    return request.query_params.get(name, "").lower() in ("", "true", "false")


def names_of_lists(filters: Mapping[str, django_filters.Filter]) -> set[str]:
    """The names of filters that take several values, each as a parameter of its own."""
    return {name for name, one in filters.items() if isinstance(one, django_filters.MultipleChoiceFilter)}


def _choose_one_of(field: forms.ChoiceField) -> str:
    choices = cast("Iterable[tuple[Any, Any]]", field.choices)
    values = [str(value) for value, _ in choices if value not in ("", None)]
    more = ", ..." if len(values) > MAX_NAMED else ""
    # Django puts the value that it got into the sentence.
    return f"Give one of: {', '.join(values[:MAX_NAMED])}{more}.".replace("%", "%%")
