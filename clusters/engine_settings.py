"""The settings of the engines that people fill in as fields, and what is wrong with given ones. Pure.

The engines check them again when a worker starts (`serving.engines`); what is refused here never gets so far.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from django.utils.translation import gettext as _

from serving.engines.registry import ENGINES
from serving.engines.spec import EngineSetting


def settings_of(engine: str) -> Sequence[EngineSetting]:
    """Return the settings of the engine that have a field."""
    return ENGINES[engine].settings if engine in ENGINES else ()


def fault(setting: EngineSetting, value: object) -> str:
    """Why the engine would not take the value; empty if it would."""
    if setting.kind == "choice":
        known = ", ".join(setting.choices)
        return "" if value in setting.choices else _("Choose one of %(known)s.") % {"known": known}
    if setting.kind == "text":
        return "" if isinstance(value, str) else _("Give a text.")
    if setting.kind == "flag":
        return "" if isinstance(value, bool) else _("Give true or false.")
    if setting.kind == "object":
        return "" if isinstance(value, dict) else _("Give a JSON object.")
    types = (int,) if setting.kind == "integer" else (int, float)
    if not isinstance(value, types) or isinstance(value, bool):
        return _("Give a whole number.") if setting.kind == "integer" else _("Give a number.")
    if setting.least is not None and value < setting.least:
        return _("Give at least %(least)g.") % {"least": setting.least}
    if setting.most is not None and value > setting.most:
        return _("Give at most %(most)g.") % {"most": setting.most}
    return ""


def setting_faults(engine: str, settings: Mapping[str, Any]) -> list[str]:
    """Return what the engine would refuse of the settings, as sentences that name the setting."""
    spelt = split(engine, settings)[0]
    return [
        f"{known.key}: {found}"
        for known in settings_of(engine)
        if known.key in spelt and (found := fault(known, spelt[known.key]))
    ]


def split(engine: str, settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the settings that have a field, by the field's key, and the rest as it is."""
    keys = {known.key for known in settings_of(engine)}
    fielded, rest = {}, {}
    for key, value in settings.items():
        name = ENGINES[engine].spelling(key) if engine in ENGINES else key
        if name in keys:
            fielded[name] = value
        else:
            rest[key] = value
    return fielded, rest
