"""What the console's forms share: Django says what is missing, a service what is wrong."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from html import escape
from typing import Any, TypeVar

from django import forms
from django.core.exceptions import ValidationError
from django.forms.utils import flatatt
from django.http import HttpRequest
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.functional import Promise
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from common.audit import MAX_REASON
from common.errors import Invalid, SlipwayError
from common.sentences import joined

F = TypeVar("F", bound=forms.Form)
PLAIN = {"autocomplete": "off", "spellcheck": "false"}
"""Attributes of an input for a name or a secret."""


class SearchInput(forms.SearchInput):
    """Drawn without a template: through one it takes longer than a row."""

    def __init__(self, placeholder: str | Promise) -> None:
        super().__init__(attrs={"placeholder": placeholder, **PLAIN})

    def _render(self, template_name: str, context: Any, renderer: Any = None) -> SafeString:
        widget = context["widget"]
        attributes = {"type": widget["type"], "name": widget["name"], "value": widget["value"]}
        return format_html("<input{}>", flatatt(attributes | widget["attrs"]))


class ChoiceSelect(forms.Select):
    """A choice of one value, without groups; drawn as a `SearchInput` is."""

    def render(
        self, name: str, value: Any, attrs: dict[str, Any] | None = None, renderer: Any = None
    ) -> SafeString:
        chosen = self.format_value(value)
        # One `format_html` for each of a hundred options would take longer than the rest of the form.
        options = "".join(
            f'<option value="{escape(str(option))}"{" selected" if str(option) in chosen else ""}>'
            f"{escape(str(label))}</option>"
            for option, label in self.offered()
        )
        attributes = flatatt({"name": name} | self.build_attrs(self.attrs, attrs))
        return format_html("<select{}>{}</select>", attributes, SafeString(options))

    def offered(self) -> Iterable[tuple[Any, Any]]:
        """Values and their labels; the first is shown when none is chosen."""
        return self.choices


class MomentInput(forms.DateTimeInput):
    """A time in the zone of the person, or of the browser where they have set none (`static/js/times.js`)."""

    input_type = "datetime-local"

    def get_context(self, name: str, value: Any, attrs: dict[str, Any] | None) -> dict[str, Any]:
        """`data-moment` tells the browser the exact time, whatever its zone."""
        given = _moment(value) if isinstance(value, str) else _aware(value)
        attrs = (attrs or {}) | {"step": "any"}
        if given is not None:
            attrs["data-moment"] = given.astimezone(UTC).isoformat(timespec="seconds")
            value = timezone.localtime(given).strftime("%Y-%m-%dT%H:%M:%S")
        return super().get_context(name, value, attrs)


def _moment(text: str) -> datetime | None:
    try:
        given = parse_datetime(text)
    except ValueError:
        return None
    return _aware(given)


def _aware(given: datetime | None) -> datetime | None:
    """A field hands its time over without a zone: it is of the current one."""
    return timezone.make_aware(given) if given is not None and timezone.is_naive(given) else given


class ReasonForm(forms.Form):
    """Why somebody does what a dialog asks about; goes into the audit log."""

    reason = forms.CharField(label="", max_length=MAX_REASON, error_messages={"required": _("Say why.")})


def blame(
    form: forms.Form, error: SlipwayError | ValidationError, names: Mapping[str, str] | None = None
) -> None:
    """Put a service's words where they belong: at the field, or above the form.

    `names` maps the service's field names to the form's, where they differ; a part of a mapped field
    (`parameters.slots`) is named in front of its sentence. A field of the service's that is several in the
    form names the one in front of its sentence.
    """
    names = names or {}
    for name, sentences in _faults(error).items():
        whole, _dot, key = name.rpartition(".")
        for told in sentences:
            field, sentence = names.get(name, name), told
            if field not in form.fields and whole in names:
                field, sentence = names[whole], f"{key}: {told}"
            part, colon, rest = told.partition(": ")
            if name and colon and name not in form.fields and part in form.fields:
                field, sentence = part, rest
            if field in form.fields:
                form.add_error(field, sentence)
            else:
                form.add_error(None, f"{name}: {sentence}" if name else sentence)


def _faults(error: SlipwayError | ValidationError) -> Mapping[str, list[str]]:
    if isinstance(error, ValidationError):
        return dict(error.message_dict) if hasattr(error, "error_dict") else {"": error.messages}
    if isinstance(error, Invalid) and error.fields:
        return error.fields
    return {"": [str(error)]}


def filled(form: F) -> F:
    """The form of a dialog, if nothing is wrong with it. Raises Invalid with all that is, by field."""
    if not form.is_valid():
        raise Invalid(joined(faults_in_words(form)), fields=_by_field(form))
    return form


def reason_of(request: HttpRequest, *, is_demanded: bool = True) -> str:
    """Return the reason that was typed in a dialog. Raises Invalid."""
    form = ReasonForm(request.POST)
    form.fields["reason"].required = is_demanded
    return str(filled(form).cleaned_data["reason"])


def faults_in_words(form: forms.Form) -> list[str]:
    """All that is wrong with a bound form, each with its field's label."""
    return [
        f"{label}: {sentence}" if (label := _label(form, name)) else sentence
        for name, sentences in _by_field(form).items()
        for sentence in sentences
    ]


def _by_field(form: forms.Form) -> dict[str, list[str]]:
    return {name: [str(sentence) for sentence in sentences] for name, sentences in form.errors.items()}


def _label(form: forms.Form, name: str) -> str:
    return str(form[name].label or "") if name in form.fields else ""
