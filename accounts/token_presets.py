"""What tokens are mostly made for: scopes that belong together, and all scopes by what they are about."""

from collections.abc import Collection
from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from accounts.states import Right


@dataclass(frozen=True, slots=True)
class Preset:
    name: str
    """As REST and the command line take it."""
    label: str | Promise
    scopes: frozenset[Right]


PRESETS = {
    preset.name: preset
    for preset in (
        Preset("read-only", _("Read only"), frozenset({Right.READ})),
        Preset(
            "ci",
            _("CI pipeline: push and release"),
            frozenset({Right.READ, Right.MODELS_WRITE, Right.RELEASES_START}),
        ),
        Preset("approver", _("Approver bot"), frozenset({Right.READ, Right.RELEASES_APPROVE})),
        Preset(
            "operator",
            _("On-call bot: pause, abort, roll back, operate the fleet"),
            frozenset({Right.READ, Right.RELEASES_OPERATE, Right.FLEET_OPERATE}),
        ),
        Preset("scim", _("Identity provider: SCIM"), frozenset({Right.PEOPLE_PROVISION})),
        Preset("provider-events", _("Cloud provider: report events"), frozenset({Right.FLEET_EVENTS})),
        Preset("heartbeats", _("Workers: report heartbeats"), frozenset({Right.FLEET_REPORT})),
    )
}

_OTHER = _("Other")
_GROUPS: dict[str, str | Promise] = {
    "read": _("General"),
    "models": _("Models"),
    "aliases": _("Models"),
    "code": _("Models"),
    "signatures": _("Models"),
    "services": _("Services and releases"),
    "releases": _("Services and releases"),
    "fleet": _("Fleet"),
    "people": _("Administration"),
    "audit": _("Administration"),
    "webhooks": _("Administration"),
}


def grouped(rights: Collection[Right]) -> list[tuple[str, list[Right]]]:
    """Group rights by their subject, in the order of `Right`."""
    groups: dict[str, list[Right]] = {}
    for right in Right:
        if right in rights:
            label = str(_GROUPS.get(right.value.partition(".")[0], _OTHER))
            groups.setdefault(label, []).append(right)
    return list(groups.items())


def offered(rights: Collection[Right]) -> list[Preset]:
    """Return the presets that somebody with these rights can use whole."""
    return [preset for preset in PRESETS.values() if preset.scopes <= set(rights)]
