"""The settings of an engine as fields of a form, and the form's fields as settings again."""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from clusters.engine_settings import settings_of, split
from serving.engines.spec import EngineSetting

PREFIX = "engine_"
DEFAULT = ("", gettext_lazy("Engine default"))


class JsonObjectField(forms.JSONField):
    """A JSON object as text. What was typed is shown again as it was typed; a fault has its place."""

    widget = forms.Textarea(attrs={"rows": 3, "spellcheck": "false", "class": "mono"})

    def prepare_value(self, value: Any) -> Any:
        if isinstance(value, str):
            return value
        return json.dumps(value, indent=2) if value else ""

    def to_python(self, value: Any) -> Any:
        if value in self.empty_values:
            return {}
        try:
            read = json.loads(value, parse_constant=_refuse_constant) if isinstance(value, str) else value
        except json.JSONDecodeError as error:
            place = {"line": error.lineno, "column": error.colno, "fault": error.msg}
            raise forms.ValidationError(
                _("Not JSON, line %(line)d, column %(column)d: %(fault)s.") % place
            ) from None
        if not isinstance(read, dict):
            raise forms.ValidationError(_('Give a JSON object, such as {"max_num_seqs": 64}.'))
        return read

    def has_changed(self, initial: Any, data: Any) -> bool:
        return super(forms.JSONField, self).has_changed(self.prepare_value(initial), data)


class OptionalJsonObject(JsonObjectField):
    """A JSON object that is left out when it is empty."""

    def to_python(self, value: Any) -> Any:
        return super().to_python(value) or None


def add_engine_fields(form: forms.Form, engine: str) -> None:
    """Add a field for each setting that the engine is known to have.

    The settings in the form's initial values go to their fields; what was typed already stays as it is.
    """
    stored = form.initial.get("settings")
    given, rest = split(engine, stored) if isinstance(stored, Mapping) else ({}, stored)
    for setting in settings_of(engine):
        name = PREFIX + setting.key
        form.fields[name] = _field(setting)
        value = given.get(setting.key)
        form.initial.setdefault(name, str(value).lower() if isinstance(value, bool) else value)
    form.initial["settings"] = rest


def engine_fields(form: forms.Form) -> list[forms.BoundField]:
    return [field for field in form.visible_fields() if field.name.startswith(PREFIX)]


def without_engine_fields(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if not name.startswith(PREFIX)}


def settings_in(form: forms.Form) -> dict[str, Any]:
    """All settings that a valid form holds: its fields, and what was typed as JSON."""
    filled = {
        name.removeprefix(PREFIX): value
        for name, value in form.cleaned_data.items()
        if name.startswith(PREFIX) and value not in (None, "")
    }
    return {**form.cleaned_data["settings"], **filled}


def told_twice(form: forms.Form, engine: str) -> list[str]:
    """Settings of the JSON that have a field of their own, which is filled in too."""
    also = split(engine, form.cleaned_data.get("settings") or {})[0]
    return [key for key in also if form.cleaned_data.get(PREFIX + key) not in (None, "")]


def typed_number(field: forms.BoundField, otherwise: int) -> int:
    """The whole number that stands in a field which nobody has checked yet."""
    try:
        return int(str(field.value()).strip())
    except ValueError:
        return otherwise


def typed_settings(form: forms.Form) -> dict[str, Any]:
    """The settings that the fields hold so far, without those that make no sense."""
    found: dict[str, Any] = {}
    for field in engine_fields(form):
        with suppress(forms.ValidationError):
            value = field.field.clean(field.value())
            if value not in (None, ""):
                found[field.name.removeprefix(PREFIX)] = value
    return found


def _field(setting: EngineSetting) -> forms.Field:
    help_text = gettext_lazy(setting.help) if setting.help else ""
    shared: dict[str, Any] = {"label": gettext_lazy(setting.label), "required": False, "help_text": help_text}
    if setting.kind == "choice":
        return forms.ChoiceField(choices=[DEFAULT, *((one, one) for one in setting.choices)], **shared)
    if setting.kind == "flag":
        return forms.TypedChoiceField(
            choices=[DEFAULT, ("true", gettext_lazy("On")), ("false", gettext_lazy("Off"))],
            coerce=lambda value: value == "true",
            empty_value=None,
            **shared,
        )
    if setting.kind == "object":
        return OptionalJsonObject(**shared)
    if setting.kind == "text":
        return forms.CharField(max_length=500, **shared)
    bounds: dict[str, Any] = {"min_value": setting.least, "max_value": setting.most}
    if setting.kind == "integer":
        return forms.IntegerField(widget=_number(DEFAULT[1]), **bounds, **shared)
    return forms.FloatField(widget=_number(DEFAULT[1], step="any"), **bounds, **shared)


def _number(placeholder: Any, **attributes: str) -> forms.NumberInput:
    return forms.NumberInput(attrs={"placeholder": placeholder, **attributes})


def _refuse_constant(name: str) -> None:
    raise forms.ValidationError(_("%(name)s is no number of JSON.") % {"name": name})
