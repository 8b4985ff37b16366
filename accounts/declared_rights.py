"""Rights as apps declare them, in `RIGHTS` of `<app>/rights.py`: the members of `accounts.states.Right`."""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec

from django.conf import settings
from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _

from common.languages import Text


class AccountKind(TextChoices):
    PERSON = "person", _("Person")
    SERVICE = "service", _("Service account")
    MACHINE = "machine", _("Machine")
    DIRECTORY = "directory", _("Directory")


class Role(TextChoices):
    VIEWER = "viewer", _("Viewer")
    DEVELOPER = "developer", _("Developer")
    APPROVER = "approver", _("Approver")
    OPERATOR = "operator", _("Operator")
    ADMIN = "admin", _("Admin")


@dataclass(frozen=True, slots=True, kw_only=True)
class RightSpec:
    value: str
    """As tokens name it: `models.write`, which is `Right.MODELS_WRITE`."""
    label: Text
    """Completes the sentence "You may not ..."."""
    group: Text
    """Heading under which token scopes show it."""
    rank: int
    """Place among all rights."""
    roles: tuple[Role, ...] = ()
    """Roles that have it in their team, beside `ADMIN`, which has all."""
    kinds: tuple[AccountKind, ...] = ()
    """Kinds of accounts that are in no team and have it everywhere."""
    presets: tuple[str, ...] = ()
    """Presets of tokens that have it (`accounts.token_presets`)."""
    is_over_services: bool = False
    """Whether a token that is limited to services may have it."""

    @property
    def name(self) -> str:
        return self.value.upper().replace(".", "_")


def declared_rights() -> Iterator[RightSpec]:
    """All, by rank. Imports no models: those that have a right as a field's choice ask for it."""
    modules = (f"{app}.rights" for app in settings.SLIPWAY_APPS)
    specs = [spec for module in modules if find_spec(module) for spec in import_module(module).RIGHTS]
    yield from sorted(specs, key=lambda spec: spec.rank)
