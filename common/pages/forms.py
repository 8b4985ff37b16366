"""What the console's forms share: Django says what is missing, a service what is wrong."""

from collections.abc import Mapping

from django import forms
from django.core.exceptions import ValidationError

from common.audit import MAX_REASON
from common.errors import Invalid, SlipwayError


class SearchInput(forms.SearchInput):
    def __init__(self, placeholder: str) -> None:
        super().__init__(attrs={"placeholder": placeholder, "autocomplete": "off", "spellcheck": "false"})


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
