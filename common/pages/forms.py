"""What the console's forms share: Django says what is missing, a service what is wrong."""

from collections.abc import Mapping
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.forms.utils import flatatt
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from common.audit import MAX_REASON
from common.errors import Invalid, SlipwayError


class _Drawn(forms.Widget):
    """A widget that is drawn without a template: through one it takes longer than a row."""

    def _render(self, template_name: str, context: Any, renderer: Any = None) -> SafeString:
        return self.drawn(context["widget"])

    def drawn(self, widget: Mapping[str, Any]) -> SafeString:
        raise NotImplementedError


class SearchInput(_Drawn, forms.SearchInput):
    def drawn(self, widget: Mapping[str, Any]) -> SafeString:
        attributes = {"type": widget["type"], "name": widget["name"], "value": widget["value"]}
        return format_html("<input{}>", flatatt(attributes | widget["attrs"]))

    def __init__(self, placeholder: str) -> None:
        super().__init__(attrs={"placeholder": placeholder, "autocomplete": "off", "spellcheck": "false"})


class Choice(_Drawn, forms.Select):
    """One of several values, without groups of them."""

    def drawn(self, widget: Mapping[str, Any]) -> SafeString:
        options = [option for _, group, _ in widget["optgroups"] for option in group]
        shown = (
            (flatatt({"value": str(option["value"])} | option["attrs"]), option["label"])
            for option in options
        )
        attributes = flatatt({"name": widget["name"]} | widget["attrs"])
        return format_html(
            "<select{}>{}</select>", attributes, format_html_join("", "<option{}>{}</option>", shown)
        )


class MomentInput(forms.DateTimeInput):
    input_type = "datetime-local"


class ReasonForm(forms.Form):
    """Why somebody does what a dialog asks about; goes into the audit log."""

    reason = forms.CharField(max_length=MAX_REASON, error_messages={"required": "Say why."})


def blame(
    form: forms.Form, error: SlipwayError | ValidationError, names: Mapping[str, str] | None = None
) -> None:
    """Put a service's words where they belong: at the field, or above the form.

    `names` maps the service's field names to the form's, where they differ.
    """
    for name, sentences in _faults(error).items():
        field = (names or {}).get(name, name)
        for sentence in sentences:
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


def first_fault(form: forms.Form) -> str:
    """The first thing that is wrong with a bound form, with its field's name: for dialogs."""
    for name, sentences in form.errors.items():
        label = form.fields[name].label or name if name in form.fields else ""
        return f"{label}: {sentences[0]}" if label else str(sentences[0])
    return ""
