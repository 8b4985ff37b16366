"""What tokens are mostly made for: scopes that belong together, and all scopes by what they are about."""

from collections.abc import Collection
from dataclasses import dataclass

from django.utils.translation import gettext_lazy as _

from accounts.states import SPECS, Right
from common.languages import Text


@dataclass(frozen=True, slots=True)
class TokenPreset:
    name: str
    """As REST and the command line take it."""
    label: Text
    scopes: frozenset[Right]


_LABELS: dict[str, Text] = {
    "read-only": _("Read only"),
    "ci": _("CI pipeline: push and release"),
    "approver": _("Approver bot"),
    "operator": _("On-call bot: pause, abort, roll back, operate the fleet"),
    "scim": _("Identity provider: SCIM"),
    "provider-events": _("Cloud provider: report events"),
    "heartbeats": _("Workers: report heartbeats"),
}
PRESETS = {
    name: TokenPreset(name, label, frozenset(Right(spec.value) for spec in SPECS if name in spec.presets))
    for name, label in _LABELS.items()
}


def grouped(rights: Collection[Right]) -> list[tuple[str, list[Right]]]:
    """Group rights by their subject, in the order of `Right`."""
    groups: dict[str, list[Right]] = {}
    for spec in SPECS:
        if (right := Right(spec.value)) in rights:
            groups.setdefault(str(spec.group), []).append(right)
    return list(groups.items())


def offered(rights: Collection[Right]) -> list[TokenPreset]:
    """Return the presets that somebody with these rights can use whole."""
    return [preset for preset in PRESETS.values() if preset.scopes <= set(rights)]
